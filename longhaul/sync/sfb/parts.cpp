#include "longhaul/sync/sfb/parts.h"

#include <algorithm>

#include "longhaul/base/check.h"

namespace longhaul::sync::sfb {

Parts::Parts(const Layout& layout, std::uint64_t rows, std::uint64_t parties, double factor_bytes,
             double matrix_bytes, const Config& config) {
  using enum LayerRange::Linear;
  bool is_factored = false;  // the last weight
  for (std::uint32_t i = 0; i < layout.layers().size(); ++i) {
    const LayerRange& layer = layout.layers()[i];
    if (layer.role != LayerRange::Role::parameter) continue;
    if (layer.linear == weight) {
      const auto out = std::uint64_t(layer.shape[0]), in = std::uint64_t(layer.shape[1]);
      is_factored = goes_as_factors({out, in, rows, parties}, factor_bytes, matrix_bytes, config);
      if (is_factored) {
        layers_.push_back({i, layer.range, {}, out, in});
        continue;
      }
    } else if (layer.linear == bias && is_factored) {
      layers_.back().bias = layer.range;
      continue;
    }
    rest_length_ += layer.range.length;
    if (!rest_.empty() && rest_.back().end() == layer.range.offset)
      rest_.back().length += layer.range.length;
    else
      rest_.push_back(layer.range);
  }
}

std::vector<std::uint32_t> Parts::entries() const {
  std::vector<std::uint32_t> all;
  for (const FactorLayer& layer : layers_) all.push_back(layer.entry);
  return all;
}

std::vector<float> Parts::gather(std::span<const float> whole) const {
  std::vector<float> rest;
  if (whole.empty()) return rest;  // a phantom's
  rest.reserve(rest_length_);
  for (const Range& range : rest_) {
    const auto values = whole.subspan(range.offset, range.length);
    rest.insert(rest.end(), values.begin(), values.end());
  }
  return rest;
}

void Parts::scatter(std::span<const float> rest, std::span<float> whole) const {
  if (whole.empty()) return;
  LH_CHECK(rest.size() == rest_length_);
  for (const Range& range : rest_) {
    std::copy_n(rest.begin(), range.length, whole.begin() + std::ptrdiff_t(range.offset));
    rest = rest.subspan(range.length);
  }
}

}  // namespace longhaul::sync::sfb
