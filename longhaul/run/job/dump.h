#pragma once
// The resolved job, key by key: as TOML that reads back as the same job, as the hash that sites
// compare, as the difference between two jobs, and as what `longhaul explain` prints.
#include <optional>
#include <string>
#include <vector>

#include "longhaul/run/job/job.h"

namespace longhaul::run {

struct ResolvedKey {
  std::string key;
  std::string value;     // as TOML
  std::string source;    // "default", "job.toml:12", "--set", "preset of diloco"
  std::string_view doc;  // of the field
  bool local = false;
};
struct ResolvedTable {
  std::string name;    // "sync", "site.tokyo", "wan.link[0]"
  std::string header;  // "[sync]", "[[site]]", "[[wan.link]]"
  std::vector<ResolvedKey> keys;
};

// Every table of the job in the order of table_names(); keys without a value are left out.
std::vector<ResolvedTable> resolved(const Job&);
std::string to_toml(const Job&);
// XXH64 of all keys that are not local (paths, addresses, output).
std::uint64_t job_hash(const Job&);
// What job_hash() is of: (name, value), by name: ("[sync] steps", "20").
std::vector<std::pair<std::string, std::string>> agreed_keys(const Job&);
// The same hash of a job with its first `sites` sites alone, without what may change when a run is
// resumed: [stop], [report], [run]; and without [wan], which has to know sites that are added.
std::uint64_t resume_hash(const Job&, std::size_t sites);
// The first key that is not local and differs, in words: "[sync] steps: was 20, is 30". `resumes`:
// without the keys that may change when a run is resumed. It may also get sites, after all others;
// then [wan] may change.
std::optional<std::string> difference(const Job& before, const Job& now, bool resumes = false);

}  // namespace longhaul::run
