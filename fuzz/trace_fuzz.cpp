// Any text is a trace that may be followed or one Error.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "longhaul/base/check.h"
#include "longhaul/flow/trace.h"
#include "longhaul/run/job/trace_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace longhaul::run;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto rows = parse_trace(text, "trace.csv", {"a rate in Mbit/s", 1e9});
  if (!rows) {
    LH_CHECK(!rows.error().what.empty());
    return 0;
  }
  LH_CHECK((longhaul::flow::Trace{.at = rows->at_s, .values = rows->values}.check()));
  return 0;
}
