#pragma once
// Internal to learn/ (includes torch): the local optimiser over the flat vector.
#include <ATen/ATen.h>

#include <memory>
#include <optional>

#include "longhaul/base/archive.h"
#include "longhaul/core/layout.h"
#include "longhaul/learn/models/optimizer_config.h"
#include "longhaul/learn/muon.h"

namespace torch::optim {
class Optimizer;
}

namespace longhaul::learn {

// Holds the trained part of the flat vectors as ONE parameter with one gradient: sgd, adagrad,
// adam and adamw work element by element, so the bits are those of an optimiser over the layers, at
// a few kernel calls a step, and the state is a few flat vectors in layout order. muon takes the
// layers' matrices apart (muon.h).
class FlatOptimizer {
 public:
  FlatOptimizer(OptimizerConfig, const Layout&, const at::Tensor& params, const at::Tensor& grads);
  ~FlatOptimizer();

  // One step with the rate that the schedule gives it. With a clip, shortens the gradient first.
  void step();
  void reset();  // forgets momentum and moments; the schedule goes on
  // Momentum or moments, one after the other; empty: none yet, or none at all. An Error: this
  // optimiser's are not of the flat vector.
  Result<std::vector<float>> vectors();
  Status set_vectors(std::span<const float>);
  void state(Archive& ar);  // steps taken, momentum or moments: going on is bit for bit

 private:
  void make();
  void clip_gradient();
  template <class State>
  State& entry();
  std::vector<at::Tensor*> tensors();
  void archive_tensor(Archive&, at::Tensor&) const;

  OptimizerConfig config_;
  at::Tensor params_, grads_;
  std::unique_ptr<torch::optim::Optimizer> optimizer_;  // one of the two
  std::optional<Muon> muon_;
  std::uint64_t steps_ = 0;  // of the schedule
};

}  // namespace longhaul::learn
