// Any bytes, read as an IDX file and as images with labels, are a value or an error. The bytes are
// cut in two at the 16-bit place that stands first: images, then labels.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "longhaul/base/check.h"
#include "longhaul/learn/data/images.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace longhaul::learn;
  if (size < 2) return 0;
  const std::size_t cut = std::size_t(data[0]) << 8 | data[1];
  const auto bytes = std::as_bytes(std::span(data, size)).subspan(2);
  const auto images = bytes.first(std::min(cut, bytes.size())),
             labels = bytes.subspan(images.size());
  if (auto array = read_idx(images, "images")) {
    std::size_t count = 1;
    for (const std::uint32_t extent : array->extents) count *= extent;
    LH_CHECK(count == array->values.size() && count < images.size());
  }
  if (auto set = read_idx_images({"images", images}, {"labels", labels}, {})) {
    std::vector<float> row(set->shape.width());
    for (std::size_t i = 0; i < set->size(); ++i) {
      set->copy_row(i, row);
      LH_CHECK(set->labels[i] >= 0 && set->labels[i] < set->shape.outputs);
    }
  }
  return 0;
}
