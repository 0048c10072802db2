#pragma once
// Parts determines how a gradient of the layout is sent. Some fully connected layers are sent as
// factors, each a part with a number. The rest is one dense vector.
#include <algorithm>
#include <optional>
#include <span>
#include <vector>

#include "longhaul/base/check.h"
#include "longhaul/base/result.h"
#include "longhaul/core/layout.h"
#include "longhaul/sync/layer_parts.h"
#include "longhaul/sync/sfb/rule.h"

namespace longhaul::sync::sfb {

struct FactorLayer {
  std::uint32_t entry = 0;  // entry of the weight in the layout
  Range weight;
  std::optional<Range> bias;  // the bias gradient is the sum of the rows of u
  std::uint64_t out = 0, in = 0;
};

// A stage of the backward pass (wait_free): the layers with layout entries from `first` to before
// `end`. Stages are ordered from the output to the input.
struct BackwardStage {
  std::uint32_t first = 0, end = 0;
  std::vector<std::uint32_t> layers = {};  // numbers of its FactorLayers, from the output down
  std::vector<Range> rest = {};            // other ranges of the parameters, ascending
  std::uint64_t rest_length = 0;
  double share = 1;  // share of a step's time; the first includes the forward pass
};

class Parts {
 public:
  Parts() = default;
  // `rows`, `parties`: see LayerShape. `factor_bytes`, `matrix_bytes`: bytes of each number.
  Parts(const Layout& layout, std::uint64_t rows, std::uint64_t parties, double factor_bytes,
        double matrix_bytes, const Config& config) {
    using enum LayerRange::Linear;
    bool is_factored = false;  // the last weight
    for (std::uint32_t i = 0; i < layout.layers().size(); ++i) {
      const LayerRange& layer = layout.layers()[i];
      if (layer.role != LayerRange::Role::parameter) continue;
      if (layer.linear == weight) {
        const auto out = std::uint64_t(layer.shape[0]), in = std::uint64_t(layer.shape[1]);
        is_factored = goes_as_factors(shape_of(out, in, rows, parties, config), factor_bytes,
                                      matrix_bytes, config);
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

  const std::vector<FactorLayer>& layers() const { return layers_; }
  std::vector<std::uint32_t> entries() const {
    std::vector<std::uint32_t> all;
    for (const FactorLayer& layer : layers_) all.push_back(layer.entry);
    return all;
  }

  // Returns the stages: one begins at each fully connected layer, or at each layer in a phantom
  // job. `shares`: as Config::backward_shares. Returns an Error if there is not one share per
  // stage, if one is negative, or if they sum to more than 1.
  Result<std::vector<BackwardStage>> stages(const Layout& layout, bool phantom,
                                            const std::vector<double>& shares) const {
    constexpr double kForward = 1.0 / 3;
    std::vector<BackwardStage> stages;  // from the input to the output
    const std::vector<LayerPart> parts = layer_parts(layout, phantom);
    for (const LayerPart& part : parts) stages.push_back({.first = part.first, .end = part.end});
    const double all = double(layout.parameters().length);
    for (std::size_t i = 0; i < stages.size(); ++i) {
      BackwardStage& stage = stages[i];
      const std::uint64_t from = parts[i].values.offset, to = parts[i].values.end();
      for (std::uint32_t k = std::uint32_t(layers_.size()); k-- > 0;)
        if (layers_[k].entry >= stage.first && layers_[k].entry < stage.end)
          stage.layers.push_back(k);
      for (const Range& range : rest_) {
        const std::uint64_t begin = std::max(range.offset, from), end = std::min(range.end(), to);
        if (begin >= end) continue;
        stage.rest.push_back({begin, end - begin});
        stage.rest_length += end - begin;
      }
      stage.share = (1 - kForward) * double(to - from) / all;
    }
    double forward = kForward;
    if (!shares.empty()) {
      forward = 1;
      for (const double share : shares) forward -= share;
      if (shares.size() != stages.size() || forward < 0 || std::ranges::min(shares) < 0)
        return invalid("[sync] backward_shares: expected " + std::to_string(stages.size()) +
                       " shares from 0 on, one for each part of the backward pass, 1 together at "
                       "most; found " +
                       std::to_string(shares.size()));
      for (std::size_t i = 0; i < stages.size(); ++i) stages[i].share = shares[i];
    }
    std::ranges::reverse(stages);
    if (!stages.empty()) stages.front().share += forward;
    return stages;
  }

  // Returns the ranges of the parameters outside the factored layers, ascending.
  const std::vector<Range>& rest() const { return rest_; }
  std::uint64_t rest_length() const { return rest_length_; }

  // Copies the rest out of a whole gradient, and back. `whole`: one value per parameter.
  std::vector<float> gather(std::span<const float> whole) const {
    return gather_ranges(rest_, whole);
  }
  void scatter(std::span<const float> rest, std::span<float> whole) const {
    scatter_ranges(rest_, rest, whole);
  }
  // The same for some ranges.
  static std::vector<float> gather_ranges(const std::vector<Range>& ranges,
                                          std::span<const float> whole) {
    std::vector<float> rest;
    if (whole.empty()) return rest;  // phantom job
    for (const Range& range : ranges) {
      const auto values = whole.subspan(range.offset, range.length);
      rest.insert(rest.end(), values.begin(), values.end());
    }
    return rest;
  }

  static void scatter_ranges(const std::vector<Range>& ranges, std::span<const float> rest,
                             std::span<float> whole) {
    if (whole.empty()) return;
    for (const Range& range : ranges) {
      LH_CHECK(rest.size() >= range.length);
      std::copy_n(rest.begin(), range.length, whole.begin() + std::ptrdiff_t(range.offset));
      rest = rest.subspan(range.length);
    }
    LH_CHECK(rest.empty());
  }

 private:
  std::vector<FactorLayer> layers_;
  std::vector<Range> rest_;
  std::uint64_t rest_length_ = 0;
};

}  // namespace longhaul::sync::sfb
