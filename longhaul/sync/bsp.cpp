#include "longhaul/sync/bsp.h"

#include "longhaul/sync/entry.h"
#include "longhaul/sync/flat.h"

namespace longhaul::sync {

// Equal optimisers make equal models: a node that returns is given the optimiser's state, too.
SyncEntry Bsp::entry() {
  return strategy_entry<Bsp>(
      {.name = "bsp",
       .summary = "average the gradients of every step",
       .traits = {.takes_gaps = true,
                  .when_lost = "waits until the others agree that it is gone, repeats the step "
                               "without it",
                  .lets_return = true},
       .costs = {{.rounds = "every step",
                  .sent = "an exchange of S",
                  .waits_for = "all, every step",
                  .staleness = "0",
                  .memory = "none",
                  .when_lost = "agreed mean, goes on"}}});
}

// g_k: the gradient of one batch of B_k samples at x.
void Bsp::begin_round(Turn& turn) {
  if (optimizer_.set(turn)) return;
  optimizer_.forget();
  turn.compute(Gradient{});
}

void Bsp::on_computed(const Computed& computed, Turn& turn) {
  if (optimizer_.on_computed()) {
    if (working()) begin_round(turn);  // it was set
    return;
  }
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
  ar(applying_, optimizer_);
}

}  // namespace longhaul::sync
