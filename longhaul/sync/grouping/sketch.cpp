#include "longhaul/sync/grouping/sketch.h"

#include <array>
#include <cmath>

#include "longhaul/base/rng.h"

namespace longhaul::sync::grouping {
namespace {

std::string stem(const std::string& name) { return name.substr(0, name.rfind('.')); }

// The signs of four rows, by their four bits: a table, as it lets a processor take several rows at
// a time.
constexpr std::array<std::array<double, 4>, 16> kSigns = [] {
  std::array<std::array<double, 4>, 16> signs{};
  for (std::size_t bits = 0; bits < 16; ++bits)
    for (std::size_t row = 0; row < 4; ++row) signs[bits][row] = (bits >> row & 1) != 0 ? 1 : -1;
  return signs;
}();

}  // namespace

Range output_layer(const Layout& layout) {
  const std::vector<LayerRange>& layers = layout.layers();
  Range found;
  std::string last;
  for (auto it = layers.rbegin(); it != layers.rend(); ++it) {
    if (it->role != LayerRange::Role::parameter) continue;
    if (found.length > 0 && stem(it->name) != last) break;
    last = stem(it->name);
    found = {it->range.offset, found.length + it->range.length};
  }
  return found;
}

// The stream of a column is far from those of codecs, whose origins are ranks.
std::vector<float> sketch_of(std::span<const float> g, std::uint32_t size, std::uint64_t seed) {
  std::vector<double> sum((std::size_t(size) + 31) / 32 * 32);  // by rows, in whole words of signs
  for (std::size_t column = 0; column < g.size(); ++column) {
    Random signs(seed, {Purpose::codec, column, 0xFFFFFFFF});
    const double value = g[column];
    for (std::size_t word = 0; word < sum.size(); word += 32) {
      const std::uint32_t bits = signs.bits32();
      for (std::size_t four = 0; four < 32; four += 4)
        for (std::size_t row = 0; row < 4; ++row)
          sum[word + four + row] += kSigns[bits >> four & 15][row] * value;
    }
  }
  sum.resize(size);
  std::vector<float> sketch;
  for (double s : sum) sketch.push_back(float(s / std::sqrt(double(size))));
  for (float s : sketch)
    if (!std::isfinite(s)) return std::vector<float>(size);
  return sketch;
}

}  // namespace longhaul::sync::grouping
