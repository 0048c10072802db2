#pragma once
// A sketch of a gradient: its output layer, projected at random on a few numbers. Likeness of
// gradients, and so of the data that they are from, survives the projection.
//   Johnson, Lindenstrauss, "Extensions of Lipschitz mappings into a Hilbert space", 1984; with
//   signs: Achlioptas, "Database-friendly random projections", JCSS 2003.
#include <array>
#include <cmath>
#include <span>
#include <vector>

#include "longhaul/base/rng.h"
#include "longhaul/core/layout.h"

namespace longhaul::sync::grouping {

inline std::string stem(const std::string& name) { return name.substr(0, name.rfind('.')); }

// The signs of four rows, by their four bits: a table, as it lets a processor take several rows at
// a time.
inline constexpr std::array<std::array<double, 4>, 16> kSigns = [] {
  std::array<std::array<double, 4>, 16> signs{};
  for (std::size_t bits = 0; bits < 16; ++bits)
    for (std::size_t row = 0; row < 4; ++row) signs[bits][row] = (bits >> row & 1) != 0 ? 1 : -1;
  return signs;
}();

// The last parameters of the layout whose names have a common stem ("fc2.weight", "fc2.bias").
inline Range output_layer(const Layout& layout) {
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

// R g of `size` numbers, R having entries +-1/sqrt(size) by (seed, row, column): no matrix is kept.
// All zeros if a number of `g` is not finite, or one of R g would not be.
// The stream of a column is far from those of codecs, whose origins are ranks.
inline std::vector<float> sketch_of(std::span<const float> g, std::uint32_t size,
                                    std::uint64_t seed) {
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
