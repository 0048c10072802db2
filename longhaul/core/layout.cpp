#include "longhaul/core/layout.h"

#include "longhaul/base/check.h"

namespace longhaul {

Layout::Layout(std::vector<LayerRange> layers) : layers_(std::move(layers)) {
  auto last = LayerRange::Role::parameter;
  for (const LayerRange& layer : layers_) {
    LH_CHECK(layer.range.offset == size() && layer.role >= last);
    last = layer.role;
    (last == LayerRange::Role::parameter ? parameters_
     : last == LayerRange::Role::buffer  ? buffers_
                                         : constants_) += layer.range.length;
  }
  for (std::size_t i = 0; i < layers_.size(); ++i) check_linear(i);
}

void Layout::check_linear(std::size_t at) const {
  const LayerRange& layer = layers_[at];
  if (layer.linear == LayerRange::Linear::none) return;
  LH_CHECK(layer.role == LayerRange::Role::parameter);
  if (layer.linear == LayerRange::Linear::weight) {
    LH_CHECK(layer.shape.size() == 2 && layer.shape[0] > 0 && layer.shape[1] > 0);
    LH_CHECK(std::uint64_t(layer.shape[0]) * std::uint64_t(layer.shape[1]) == layer.range.length);
    return;
  }
  LH_CHECK(at > 0 && layers_[at - 1].linear == LayerRange::Linear::weight);
  LH_CHECK(layer.range.length == std::uint64_t(layers_[at - 1].shape[0]));
}

std::shared_ptr<const Layout> Layout::flat(std::uint64_t size) {
  const auto length = std::int64_t(size);
  return std::make_shared<const Layout>(std::vector{LayerRange{"flat", {0, size}, {length}}});
}

}  // namespace longhaul
