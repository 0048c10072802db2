#include "longhaul/learn/data/cifar.h"

#include <array>

#include <fmt/format.h>

namespace longhaul::learn {
namespace {

// Of the training set's pixels, scaled to 0 .. 1: red, green, blue.
constexpr std::array kMean = {0.4914, 0.4822, 0.4465};
constexpr std::array kStd = {0.2470, 0.2435, 0.2616};

}  // namespace

Result<DataSet> read_cifar10(std::span<const std::byte> bytes, std::string_view name) {
  if (bytes.empty() || bytes.size() % kCifarRow != 0)
    return malformed(
        fmt::format("{}: truncated CIFAR-10 file: expected a multiple of {} bytes, "
                    "found {} ({} too many or {} missing)",
                    name, kCifarRow, bytes.size(), bytes.size() % kCifarRow,
                    kCifarRow - bytes.size() % kCifarRow));
  DataSet data;
  data.shape = {{3, 32, 32}, 10, Task::classification};
  data.names = {"airplane", "automobile", "bird",  "cat",  "deer",
                "dog",      "frog",       "horse", "ship", "truck"};
  std::vector<std::uint8_t> pixels;
  pixels.reserve(bytes.size());
  for (std::size_t at = 0; at < bytes.size(); at += kCifarRow) {
    const auto label = std::to_integer<std::int64_t>(bytes[at]);
    if (label > 9)
      return malformed(
          fmt::format("{}: byte {}: expected a label from 0 to 9, found {}", name, at, label));
    data.labels.push_back(label);
    for (const std::byte pixel : bytes.subspan(at + 1, kCifarRow - 1))
      pixels.push_back(std::to_integer<std::uint8_t>(pixel));
  }
  data.set_pixels(std::move(pixels), kMean, kStd);
  return data;
}

}  // namespace longhaul::learn
