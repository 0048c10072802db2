#include "longhaul/core/layout.h"

#include "longhaul/base/check.h"

namespace longhaul {

Layout::Layout(std::vector<LayerRange> layers) : layers_(std::move(layers)) {
  for (const LayerRange& layer : layers_) {
    LH_CHECK(layer.range.offset == size());
    const bool parameter = layer.role == LayerRange::Role::parameter;
    LH_CHECK(!parameter || buffers_ == 0);
    (parameter ? parameters_ : buffers_) += layer.range.length;
  }
}

std::shared_ptr<const Layout> Layout::flat(std::uint64_t size) {
  const auto length = std::int64_t(size);
  return std::make_shared<const Layout>(std::vector{LayerRange{"flat", {0, size}, {length}}});
}

}  // namespace longhaul
