#include "longhaul/sync/power_sgd.h"

#include "longhaul/sync/entry.h"
#include "longhaul/sync/flat.h"

namespace longhaul::sync {

// Factors must not be sparse, and their errors not be added to those of other factors. Equal
// optimisers make equal models: a node that returns is given the optimiser's state, too.
SyncEntry PowerSgd::entry() {
  return strategy_entry<PowerSgd>(
      {.name = "power_sgd",
       .summary = "as bsp, gradients of weight matrices as products of low rank",
       .traits = {.no_feedback = "feeds back what its factors lose by itself",
                  .takes_unbiased = false,
                  .when_lost = "waits until the others agree that it is gone, repeats the step "
                               "without it",
                  .lets_return = true},
       .costs = {{.rounds = "every step",
                  .sent = "two exchanges: r (rows + columns) of each matrix, the rest whole",
                  .waits_for = "all, twice every step",
                  .staleness = "0",
                  .memory = "error: S; factors: as sent",
                  .when_lost = "agreed mean, goes on"}}});
}

PowerSgd::PowerSgd(const Config& config, SyncParts parts, const Place& place)
    : Synchronous(entry(), std::move(parts)),
      config_(config),
      factors_(*place.layout, config.rank) {}

// Q ~ N(0, 1), the same on all; of a warm start only where a column has come to nothing.
void PowerSgd::draw(Turn& turn) {
  if (!config_.warm_start) std::fill(q_.begin(), q_.end(), 0.f);
  Random random = turn.random(Purpose::codec, round(), 0);
  factors_.fill_empty(q_, [&] { return random.normal(); });
}

void PowerSgd::begin_run(Turn& turn) {
  if (turn.place().phantom) return;
  error_.assign(parameter_count(turn.place()), 0.f);
  q_.assign(factors_.right_size(), 0.f);
}

// g_k: the gradient of one batch of B_k samples at x.
void PowerSgd::begin_round(Turn& turn) {
  if (optimizer_.set(turn)) return;
  optimizer_.forget();
  turn.compute(Gradient{});
}

// D_k = g_k + e_k;  P <- sum B_k D_k Q / sum B_k
void PowerSgd::on_computed(const Computed& computed, Turn& turn) {
  if (optimizer_.on_computed()) {
    if (working()) begin_round(turn);  // it was set
    return;
  }
  if (applying_) {
    applying_ = false;
    return end_round(turn);
  }
  std::vector<float> p;
  if (!turn.place().phantom) {
    draw(turn);
    const auto g = turn.grads().first(error_.size());
    for (std::size_t i = 0; i < error_.size(); ++i) error_[i] += g[i];
    p = factors_.left(error_, q_);
  }
  contribute(p, double(computed.samples), computed, turn);
}

// P <- orthonormal(P);  Q <- sum B_k D_k^T P / sum B_k
void PowerSgd::use_mean(std::span<float> mean, Turn& turn) {
  p_.assign(mean.begin(), mean.end());
  if (factors_.right_size() == 0) return use_second_mean({}, turn);  // nothing is factored
  std::vector<float> q;
  if (!turn.place().phantom) {
    factors_.orthonormalise(p_);
    q = factors_.right(error_, p_);
  }
  contribute_second(q, turn);
}

// gbar = P Q^T;  e_k <- D_k - gbar where that is factored, else 0;  x <- opt(x, outer(gbar))
void PowerSgd::use_second_mean(std::span<float> mean, Turn& turn) {
  if (turn.place().phantom) return apply({}, turn);
  q_.assign(mean.begin(), mean.end());
  std::vector<float> gbar = factors_.product(p_, q_);
  for (std::size_t i = 0; i < error_.size(); ++i) error_[i] -= gbar[i];
  factors_.clear_rest(error_);  // nothing is lost of what is not factored
  apply(gbar, turn);
}

void PowerSgd::apply(std::span<float> gradient, Turn& turn) {
  outer().apply(gradient);
  std::copy(gradient.begin(), gradient.end(), turn.grads().begin());
  applying_ = true;
  turn.compute(ApplyGradient{});
}

// What the sender's factors have lost of its gradients is not this worker's.
void PowerSgd::on_returned(Turn&) {
  std::fill(error_.begin(), error_.end(), 0.f);
  optimizer_.on_returned();
}

bool PowerSgd::fits(std::size_t parameters) const {
  return Synchronous::fits(parameters) && error_.size() == parameters &&
         p_.size() == (parameters > 0 ? factors_.left_size() : 0) &&
         q_.size() == (parameters > 0 ? factors_.right_size() : 0);
}

void PowerSgd::state(Archive& ar) {
  Synchronous::state(ar);
  ar(error_, p_, q_, applying_, optimizer_);
}

}  // namespace longhaul::sync
