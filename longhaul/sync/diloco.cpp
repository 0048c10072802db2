#include "longhaul/sync/diloco.h"

namespace longhaul::sync {

Status DiLoCo::check(const Config& config, const Place& place) {
  return check_min_sites(config.min_sites, place);
}

std::vector<Preset> DiLoCo::presets() {
  using namespace std::string_literals;
  return {{"outer", "kind", {"nesterov"s}}, {"outer", "rate", {0.7}},
          {"outer", "momentum", {0.9}},     {"optimizer", "kind", {"adamw"s}},
          {"optimizer", "rate", {4e-4}},    {"optimizer", "weight_decay", {0.1}},
          {"optimizer", "beta1", {0.9}},    {"optimizer", "beta2", {0.95}}};
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
