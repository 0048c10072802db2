#pragma once
// The resolved job, key by key: as TOML that reads back as the same job, as the hash that sites
// compare, as the difference between two jobs, and for `longhaul explain`.
#include <optional>
#include <string>
#include <vector>

#include "longhaul/run/job/job.h"

namespace longhaul::run {

struct ResolvedKey {
  std::string key;
  std::string value;     // as TOML
  std::string source;    // "default", "job.toml:12", "--set", "preset of diloco"
  std::string_view doc;  // the field's
  bool local = false;
};
struct ResolvedTable {
  std::string name;    // "sync", "site.tokyo", "wan.link[0]"
  std::string header;  // "[sync]", "[[site]]", "[[wan.link]]"
  std::vector<ResolvedKey> keys;
};

// Returns every table of the job in the order of table_names(), without keys that have no value.
std::vector<ResolvedTable> resolved(const Job&);
std::string to_toml(const Job&);
// Returns XXH64 of all keys that are not local (paths, addresses, output).
std::uint64_t job_hash(const Job&);
// Returns the input of job_hash() as (name, value), by name: ("[sync] steps", "20").
std::vector<std::pair<std::string, std::string>> agreed_keys(const Job&);
// Returns the same hash for a job with only its first `sites` sites. Excludes the keys that may
// change when a run resumes ([stop], [report], [run]), and [wan], which includes added sites.
std::uint64_t resume_hash(const Job&, std::size_t sites);
// Returns the first key that is not local and differs, in words: "[sync] steps: was 20, is 30".
// `resumes`: ignores the keys that may change when a run resumes. Sites may then be added at the
// end, and with them [wan] may change.
std::optional<std::string> difference(const Job& before, const Job& now, bool resumes = false);

}  // namespace longhaul::run
