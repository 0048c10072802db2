// Any text, read as CSV, is a value or an error. The first byte picks task, header, target column
// and what is left out.
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "longhaul/base/check.h"
#include "longhaul/learn/data/csv.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace longhaul::learn;
  if (size == 0) return 0;
  CsvOptions options;
  if (data[0] & 1) options.target.task = Task::regression;
  if (data[0] & 2) options.target.labels = {"1", "b"};
  if (data[0] & 4) options.columns = {data[0] & 8 ? "1" : "y"};
  if (data[0] & 16) options.ignore = {"2"};
  if (data[0] & 32) options.header = (data[0] & 64) != 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  auto set = read_csv(text, "file", options);
  LH_CHECK(set || !set.error().what.empty());
  if (!set) return 0;
  LH_CHECK(set->size() > 0 && set->features.size() == set->size() * set->shape.width());
  LH_CHECK(set->features.size() <= size);
  for (const float value : set->features) LH_CHECK(std::isfinite(value));
  for (const float value : set->targets) LH_CHECK(std::isfinite(value));
  for (const std::int64_t label : set->labels) LH_CHECK(label >= 0 && label < set->shape.outputs);
  return 0;
}
