#pragma once
// IDX, the format of the MNIST files (LeCun, Cortes, Burges, "The MNIST database"): bytes 0, 0,
// type, number of dimensions; each extent as 32 bits, big-endian; then the numbers, row-major. Only
// unsigned bytes (type 8) are read.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "longhaul/base/result.h"
#include "longhaul/learn/data/dataset.h"

namespace longhaul::learn {

struct IdxArray {
  std::vector<std::uint32_t> extents;  // one or more, none 0; the first counts samples
  std::span<const std::byte> values;   // into the bytes that were read
};
// `name` stands for the file in messages; so below.
Result<IdxArray> read_idx(std::span<const std::byte> bytes, std::string_view name);

struct NamedBytes {
  std::string_view name;
  std::span<const std::byte> bytes;
};
struct PixelOptions {
  std::uint32_t classes = 0;      // 0: the largest label and one
  std::vector<double> mean, std;  // one a channel, of pixels scaled to 0 .. 1; empty: 0 and 1
};
// Images of 2 (samples x features), 3 (samples x height x width) or 4 extents (samples x channels x
// height x width) and as many labels.
Result<DataSet> read_idx_images(const NamedBytes& images, const NamedBytes& labels,
                                const PixelOptions&);

// The binary version of CIFAR-10 (Krizhevsky, "Learning multiple layers of features from tiny
// images", 2009): rows of 3,073 bytes, a label 0 .. 9, then 32x32 red, green and blue bytes.
inline constexpr std::size_t kCifarRow = 1 + 3 * 32 * 32;

// One file; `name` stands for it in messages.
Result<DataSet> read_cifar10(std::span<const std::byte> bytes, std::string_view name);

}  // namespace longhaul::learn
