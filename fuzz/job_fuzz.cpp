// Any text is a job or one Error; a job written out reads back as itself.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "longhaul/base/check.h"
#include "longhaul/run/job/dump.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace longhaul::run;
  auto doc = parse_document({reinterpret_cast<const char*>(data), size}, "job.toml");
  if (!doc) {
    LH_CHECK(!doc.error().what.empty());
    return 0;
  }
  auto job = resolve_job(*std::move(doc));
  if (!job) {
    LH_CHECK(!job.error().what.empty());
    return 0;
  }
  const std::string text = to_toml(*job);
  auto again = parse_document(text, "job.toml");
  LH_CHECK(again);
  auto same = resolve_job(*std::move(again));
  LH_CHECK(same);
  LH_CHECK(to_toml(*same) == text);
  LH_CHECK(job_hash(*same) == job_hash(*job));
  return 0;
}
