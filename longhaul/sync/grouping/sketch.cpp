#include "longhaul/sync/grouping/sketch.h"

#include <cmath>

#include "longhaul/base/rng.h"

namespace longhaul::sync::grouping {
namespace {

std::string stem(const std::string& name) { return name.substr(0, name.rfind('.')); }

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
  std::vector<double> sum(size);
  for (std::size_t column = 0; column < g.size(); ++column) {
    Random signs(seed, {Purpose::codec, column, 0xFFFFFFFF});
    std::uint32_t bits = 0;
    for (std::uint32_t row = 0; row < size; ++row) {
      if (row % 32 == 0) bits = signs.bits32();
      sum[row] += (bits >> (row % 32) & 1) != 0 ? double(g[column]) : -double(g[column]);
    }
  }
  std::vector<float> sketch;
  for (double s : sum) sketch.push_back(float(s / std::sqrt(double(size))));
  for (float s : sketch)
    if (!std::isfinite(s)) return std::vector<float>(size);
  return sketch;
}

}  // namespace longhaul::sync::grouping
