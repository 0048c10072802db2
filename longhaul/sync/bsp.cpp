#include "longhaul/sync/bsp.h"

#include "longhaul/sync/flat.h"

namespace longhaul::sync {

// g_k: the gradient of one batch of B_k samples at x.
void Bsp::begin_round(Turn& turn) { turn.compute(Gradient{}); }

void Bsp::on_computed(const Computed& computed, Turn& turn) {
  if (applying_) {
    applying_ = false;
    return end_round(turn);
  }
  // gbar <- sum B_k g_k / sum B_k
  const auto g = turn.grads().first(parameter_count(turn.place()));
  contribute(g, weight(computed), computed, turn);
}

// x <- opt(x, outer(gbar)); equal gradients, equal optimisers, equal x.
void Bsp::use_mean(std::span<float> gbar, Turn& turn) {
  outer().apply(gbar);
  std::copy(gbar.begin(), gbar.end(), turn.grads().begin());
  applying_ = true;
  turn.compute(ApplyGradient{});
}

void Bsp::state(Archive& ar) {
  Synchronous::state(ar);
  ar(applying_);
}

}  // namespace longhaul::sync
