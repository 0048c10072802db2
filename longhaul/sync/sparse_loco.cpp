#include "longhaul/sync/sparse_loco.h"

#include "longhaul/sync/entry.h"

namespace longhaul::sync {

// Presets: those of the authors' code (tplr-ai/templar), whose outer optimiser is SGD with rate 1.
SyncEntry SparseLoCo::entry() {
  using namespace std::string_literals;
  return strategy_entry<SparseLoCo>(
      {.name = "sparse_loco",
       .summary = "DiLoCo's rounds with a sparse exchange in two bits and error feedback",
       .traits = {.takes_outer = false,
                  .when_lost = "goes on without it and its residual; ends the run below min_sites",
                  .lets_return = true},
       .presets = {{"codec", "kind", {"q_top_k"s}},
                   {"codec", "ratio", {1.0 / 64}},
                   {"codec", "chunk", {std::int64_t{4096}}},
                   {"codec", "mean_of_senders", {true}},
                   {"codec", "error_feedback", {true}},
                   {"codec", "feedback_decay", {0.95}},
                   {"optimizer", "kind", {"adamw"s}},
                   {"optimizer", "rate", {1.3e-4}},
                   {"optimizer", "weight_decay", {0.1}},
                   {"optimizer", "beta1", {0.9}},
                   {"optimizer", "beta2", {0.95}}},
       .costs = {{.rounds = "every H steps (30)",
                  .sent = "an exchange, of 0.0055 S up",
                  .waits_for = "all, every H steps",
                  .staleness = "0",
                  .memory = "anchor: S, residual: S"}}});
}

Status SparseLoCo::check(const Config& config, const Place& place) {
  return check_min_sites(config.min_sites, place);
}

}  // namespace longhaul::sync
