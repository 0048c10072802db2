#include "longhaul/learn/data/images.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "longhaul/learn/data/errors.h"

namespace longhaul::learn {

namespace {

constexpr std::string_view kAgain = "fetch or copy it again";  // what a damaged file needs

std::uint32_t big_endian(std::span<const std::byte> bytes) {
  std::uint32_t value = 0;
  for (int i = 0; i < 4; ++i) value = value << 8 | std::to_integer<std::uint32_t>(bytes[size_t(i)]);
  return value;
}

Status check_magic(std::span<const std::byte> bytes, std::string_view name) {
  if (bytes.size() < 4)
    return malformed("{}: truncated IDX file: expected at least 4 bytes, found {}; {}", name,
                     bytes.size(), kAgain);
  const std::uint32_t magic = big_endian(bytes);
  if (magic >> 16 == 0x1f8b)
    return malformed("{}: is compressed (gzip): unpack it with gunzip", name);
  if (magic >> 16 != 0 || (magic & 0xff) == 0)
    return malformed(
        "{}: byte 0: expected an IDX file (00 00 08 and the number of dimensions), found {:08x}; "
        "{}",
        name, magic, kAgain);
  if (magic >> 8 != 8)
    return malformed("{}: byte 2: expected unsigned bytes (type 08), found type {:02x}; convert it",
                     name, magic >> 8);
  return Ok{};
}

std::vector<std::uint8_t> as_pixels(const IdxArray& array) {
  std::vector<std::uint8_t> pixels(array.values.size());
  std::ranges::transform(array.values, pixels.begin(), std::to_integer<std::uint8_t>);
  return pixels;
}

}  // namespace

Result<IdxArray> read_idx(std::span<const std::byte> bytes, std::string_view name) {
  LH_TRY(check_magic(bytes, name));
  const std::size_t dimensions = std::to_integer<std::size_t>(bytes[3]), head = 4 + 4 * dimensions;
  if (bytes.size() < head)
    return malformed("{}: truncated IDX file: expected {} bytes of header, found {}; {}", name,
                     head, bytes.size(), kAgain);
  IdxArray array;
  array.values = bytes.subspan(head);
  // Multiplied only while it fits the file: no overflow, and no extent is believed.
  std::uint64_t product = 1;
  std::string extents;
  for (std::size_t i = 0; i < dimensions; ++i) {
    const std::uint32_t extent = big_endian(bytes.subspan(4 + 4 * i));
    if (extent == 0)
      return malformed("{}: byte {}: expected an extent above 0, found 0; {}", name, 4 + 4 * i,
                       kAgain);
    extents += fmt::format("{}{}", i ? " x " : "", extent);
    const bool fits = extent <= array.values.size() / product;
    product = fits ? product * extent : array.values.size() + 1;
    array.extents.push_back(extent);
  }
  if (product > array.values.size())
    return malformed(
        "{}: truncated IDX file: expected {} numbers after {} bytes of header, found {}; {}", name,
        extents, head, array.values.size(), kAgain);
  if (product < array.values.size())
    return malformed("{}: byte {}: expected the end of {} numbers, found {} bytes more; {}", name,
                     head + product, extents, array.values.size() - product, kAgain);
  return array;
}

Result<DataSet> read_idx_images(const NamedBytes& images, const NamedBytes& labels,
                                const PixelOptions& options) {
  LH_LET(pixels, read_idx(images.bytes, images.name));
  LH_LET(classes, read_idx(labels.bytes, labels.name));
  const std::size_t dimensions = pixels.extents.size();
  if (dimensions < 2 || dimensions > 4)
    return malformed("{}: byte 3: expected images of 2 to 4 dimensions, found {}", images.name,
                     dimensions);
  if (classes.extents.size() != 1)
    return malformed("{}: byte 3: expected labels of 1 dimension, found {}", labels.name,
                     classes.extents.size());
  if (classes.extents[0] != pixels.extents[0])
    return malformed("{}: expected a label for each of the {} images of {}, found {}", labels.name,
                     pixels.extents[0], images.name, classes.extents[0]);
  DataSet data;
  data.shape.sample.assign(pixels.extents.begin() + 1, pixels.extents.end());
  if (dimensions == 3) data.shape.sample.insert(data.shape.sample.begin(), 1);
  for (std::size_t i = 0; i < classes.values.size(); ++i) {
    const auto label = std::to_integer<std::int64_t>(classes.values[i]);
    if (options.classes > 0 && label >= std::int64_t{options.classes})
      return malformed("{}: byte {}: expected a label from 0 to {}, found {}", labels.name, 8 + i,
                       options.classes - 1, label);
    data.labels.push_back(label);
  }
  data.shape.outputs = options.classes > 0 ? options.classes : std::ranges::max(data.labels) + 1;
  if (data.shape.outputs < 2)
    return malformed("{}: all labels are 0; expected two classes or more", labels.name);
  const auto channels = dimensions == 4 ? std::size_t(data.shape.sample[0]) : 1;
  const auto mean = options.mean.empty() ? std::vector(channels, 0.0) : options.mean;
  const auto std = options.std.empty() ? std::vector(channels, 1.0) : options.std;
  if (mean.size() != channels || std.size() != channels)
    return invalid(
        "{}: [data] mean and std: expected {} numbers each, one a channel, found {} and {}",
        images.name, channels, mean.size(), std.size());

  data.set_pixels(as_pixels(pixels), mean, std);
  return data;
}

namespace {

// Red, green and blue of the training set's pixels, scaled to 0 .. 1.
constexpr std::array kMean = {0.4914, 0.4822, 0.4465};
constexpr std::array kStd = {0.2470, 0.2435, 0.2616};

}  // namespace

Result<DataSet> read_cifar10(std::span<const std::byte> bytes, std::string_view name) {
  if (bytes.empty() || bytes.size() % kCifarRow != 0)
    return malformed(
        "{}: truncated CIFAR-10 file: expected a multiple of {} bytes, found {} ({} too many or {} "
        "missing)",
        name, kCifarRow, bytes.size(), bytes.size() % kCifarRow,
        kCifarRow - bytes.size() % kCifarRow);
  DataSet data;
  data.shape = {{3, 32, 32}, 10, Task::classification};
  data.names = {"airplane", "automobile", "bird",  "cat",  "deer",
                "dog",      "frog",       "horse", "ship", "truck"};
  std::vector<std::uint8_t> pixels;
  pixels.reserve(bytes.size());
  for (std::size_t at = 0; at < bytes.size(); at += kCifarRow) {
    const auto label = std::to_integer<std::int64_t>(bytes[at]);
    if (label > 9)
      return malformed("{}: byte {}: expected a label from 0 to 9, found {}", name, at, label);
    data.labels.push_back(label);
    for (const std::byte pixel : bytes.subspan(at + 1, kCifarRow - 1))
      pixels.push_back(std::to_integer<std::uint8_t>(pixel));
  }
  data.set_pixels(std::move(pixels), kMean, kStd);
  return data;
}

}  // namespace longhaul::learn
