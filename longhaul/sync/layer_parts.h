#pragma once
// The parts that a learner takes a step in (ForwardPart, BackwardPart): runs of the layout's
// entries, from the input to the output.
#include <cstdint>
#include <vector>

#include "longhaul/base/result.h"
#include "longhaul/core/layout.h"

namespace longhaul::sync {

struct LayerPart {
  std::uint32_t first = 0, end = 0;  // of the layout's entries
  Range values;                      // of the parameters
};

// A part begins at each fully connected layer, a phantom's at each layer.
inline std::vector<LayerPart> layer_parts(const Layout& layout, bool phantom) {
  std::vector<LayerPart> parts;
  const auto& entries = layout.layers();
  for (std::uint32_t i = 0; i < entries.size(); ++i) {
    if (entries[i].role != LayerRange::Role::parameter) continue;
    const bool is_cut = phantom || entries[i].linear == LayerRange::Linear::weight;
    if (parts.empty() || is_cut)
      parts.push_back({.first = i, .end = i, .values = {entries[i].range.offset, 0}});
    parts.back().end = i + 1;
    parts.back().values.length += entries[i].range.length;
  }
  return parts;
}

// The same, neighbours together where there are more than `most` (at least 1).
inline std::vector<LayerPart> layer_parts(const Layout& layout, bool phantom, std::size_t most) {
  const std::vector<LayerPart> all = layer_parts(layout, phantom);
  const std::size_t together = (all.size() + most - 1) / most;
  std::vector<LayerPart> parts;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (i % together == 0) {
      parts.push_back(all[i]);
      continue;
    }
    parts.back().end = all[i].end;
    parts.back().values.length += all[i].values.length;
  }
  return parts;
}

}  // namespace longhaul::sync
