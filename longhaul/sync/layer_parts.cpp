#include "longhaul/sync/layer_parts.h"

namespace longhaul::sync {

std::vector<LayerPart> layer_parts(const Layout& layout, bool phantom) {
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

std::vector<LayerPart> layer_parts(const Layout& layout, bool phantom, std::size_t most) {
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
