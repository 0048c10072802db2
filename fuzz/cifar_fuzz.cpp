// Any bytes, read as a CIFAR-10 file, are whole rows with labels of 0 .. 9 or an error.
#include <cstddef>
#include <cstdint>

#include "longhaul/base/check.h"
#include "longhaul/learn/data/images.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace longhaul::learn;
  auto set = read_cifar10(std::as_bytes(std::span(data, size)), "batch");
  LH_CHECK(set || !set.error().what.empty());
  if (!set) return 0;
  LH_CHECK(set->size() * kCifarRow == size);
  std::vector<float> row(set->shape.width());
  for (std::size_t i = 0; i < set->size(); ++i) {
    set->copy_row(i, row);
    LH_CHECK(set->labels[i] >= 0 && set->labels[i] < 10);
  }
  return 0;
}
