// Any text, read as LIBSVM, is a value or an error, and takes memory in proportion to the text. The
// first byte picks the task and whether the labels and the width are given.
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "longhaul/base/check.h"
#include "longhaul/learn/data/libsvm.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace longhaul::learn;
  if (size == 0) return 0;
  LibsvmOptions options;
  if (data[0] & 1) options.target.task = Task::regression;
  if (data[0] & 2) options.target.labels = {"1", "-1"};
  if (data[0] & 4) options.features = 9;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  auto set = read_libsvm(text, "file", options);
  LH_CHECK(set || !set.error().what.empty());
  if (!set) return 0;
  LH_CHECK(set->size() > 0 && set->features.size() == set->size() * set->shape.width());
  LH_CHECK(set->features.size() * sizeof(float) <= kMaxDense * size + (1 << 20));
  for (const float value : set->features) LH_CHECK(std::isfinite(value));
  for (const std::int64_t label : set->labels) LH_CHECK(label >= 0 && label < set->shape.outputs);
  return 0;
}
