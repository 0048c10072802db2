#include "longhaul/sync/diloco.h"

#include "longhaul/sync/entry.h"

namespace longhaul::sync {

// Presets: the inner and outer optimiser of the paper. A node that returns begins with a fresh
// inner optimiser; the model and the outer optimiser are handed over.
SyncEntry DiLoCo::entry() {
  using namespace std::string_literals;
  return strategy_entry<DiLoCo>(
      {.name = "diloco",
       .summary = "average the updates of many local steps, Nesterov momentum outside",
       .traits = {.takes_gaps = true,
                  .when_lost = "goes on without it; ends the run below min_sites",
                  .lets_return = true},
       .presets = {{"outer", "kind", {"nesterov"s}},
                   {"outer", "rate", {0.7}},
                   {"outer", "momentum", {0.9}},
                   {"optimizer", "kind", {"adamw"s}},
                   {"optimizer", "rate", {4e-4}},
                   {"optimizer", "weight_decay", {0.1}},
                   {"optimizer", "beta1", {0.9}},
                   {"optimizer", "beta2", {0.95}}},
       .costs = {{.rounds = "every H steps (500)",
                  .sent = "an exchange of S",
                  .waits_for = "all, every H steps",
                  .staleness = "0",
                  .memory = "anchor: S (and the outer's)"}}});
}

Status DiLoCo::check(const Config& config, const Place& place) {
  return check_min_sites(config.min_sites, place);
}

void DiLoCo::begin_run(Turn& turn) { local_.anchor(turn); }

// x_k: H steps of the inner optimiser from X.
void DiLoCo::begin_round(Turn& turn) { turn.compute(LocalStep{}, config_.steps); }

// ubar <- mean(x_k - X)
void DiLoCo::on_computed(const Computed& computed, Turn& turn) {
  contribute(local_.update(turn), 1, computed, turn);
}

// X <- X + outer(ubar); x_k <- X
void DiLoCo::use_mean(std::span<float> ubar, Turn& turn) {
  local_.apply(ubar, outer(), turn);
  end_round(turn);
}

void DiLoCo::state(Archive& ar) {
  Synchronous::state(ar);
  ar(local_);
}

}  // namespace longhaul::sync
