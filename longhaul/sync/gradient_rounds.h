#pragma once
// GradientRounds is a Synchronous with one gradient a round: all workers apply its mean with
// optimisers that are equal, and so hold equal models. A node that returns is given the optimiser's
// state.
#include "longhaul/sync/flat.h"
#include "longhaul/sync/optimizer_transfer.h"
#include "longhaul/sync/synchronous.h"

namespace longhaul::sync {

class GradientRounds : public Synchronous {
 public:
  void on_step(const StepResult& result, Turn&) override { optimizer_.on_step(result); }

  void on_computed(const Computed& computed, Turn& turn) override {
    if (optimizer_.on_computed()) return;  // read or set
    if (std::exchange(applying_, false)) return end_round(turn);
    give_gradient(computed, turn);
  }

  void state(Archive& ar) override {
    Synchronous::state(ar);
    ar(applying_, optimizer_);
  }

 protected:
  using Synchronous::Synchronous;

  // The weight of a gradient in the mean.
  virtual double weight(const Computed& computed) const { return double(computed.samples); }

  // g_k: the gradient of one batch of B_k samples at x.
  void begin_round(Turn& turn) override {
    optimizer_.forget();
    turn.compute(Gradient{});
  }

  // gbar <- sum B_k g_k / sum B_k
  virtual void give_gradient(const Computed& computed, Turn& turn) {
    const auto g = turn.grads().first(parameter_count(turn.place()));
    contribute(g, weight(computed), computed, turn);
  }

  void use_mean(std::span<float> gbar, Turn& turn) override { apply(gbar, turn); }

  // x <- opt(x, outer(gbar)): equal gradients and equal optimisers make equal x. Ends the round.
  void apply(std::span<float> gbar, Turn& turn) {
    outer().apply(gbar);
    std::ranges::copy(gbar, turn.grads().begin());
    applying_ = true;
    turn.compute(ApplyGradient{});
  }

  bool ready_to_send_state(Turn& turn) override { return optimizer_.ready(turn); }
  void on_returned(Turn&) override { optimizer_.on_returned(); }
  bool learner_is_set(Turn& turn) override {
    return !optimizer_.set(turn) && !optimizer_.is_computing();
  }

  OptimizerTransfer optimizer_;
  bool applying_ = false;  // the optimiser is at the mean gradient, not the model at a batch
};

}  // namespace longhaul::sync
