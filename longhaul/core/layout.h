#pragma once
// A model as one flat vector of float32: ordered ranges that tile it, parameters first, then
// buffers, then constants.
#include <memory>
#include <string>
#include <vector>

#include "longhaul/base/check.h"
#include "longhaul/core/types.h"

namespace longhaul {

struct LayerRange {
  enum class Role : std::uint8_t {
    parameter,
    buffer,   // running statistics: averaged as exact values, without codec and outer
    constant  // not changed by steps and not exchanged: only part of a model as a whole
  };
  std::string name;
  Range range;
  std::vector<std::int64_t> shape;
  Role role = Role::parameter;
  // Tensors of a fully connected layer whose gradient the learner can return as factors u and v
  // (SufficientFactors, core/work.h).
  enum class Linear : std::uint8_t {
    none,
    weight,  // {out, in}: its gradient is u^T v
    bias     // {out}, the next one after its weight: its gradient is the sum of the rows of u
  };
  Linear linear = Linear::none;
};

class Layout {
 public:
  Layout() = default;
  // CHECKs that the ranges tile [0, size) in order, that roles are in the order above, and that
  // fully connected layers have the shapes of LayerRange::Linear.
  explicit Layout(std::vector<LayerRange> layers) : layers_(std::move(layers)) {
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

  // One nameless parameter: tests and phantom models.
  static std::shared_ptr<const Layout> flat(std::uint64_t size) {
    const auto length = std::int64_t(size);
    return std::make_shared<const Layout>(std::vector{LayerRange{"flat", {0, size}, {length}}});
  }

  const std::vector<LayerRange>& layers() const { return layers_; }
  std::uint64_t size() const { return parameters_ + buffers_ + constants_; }
  Range parameters() const { return {0, parameters_}; }
  Range buffers() const { return {parameters_, buffers_}; }

 private:
  void check_linear(std::size_t at) const {
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

  std::vector<LayerRange> layers_;
  std::uint64_t parameters_ = 0;
  std::uint64_t buffers_ = 0;
  std::uint64_t constants_ = 0;
};

}  // namespace longhaul
