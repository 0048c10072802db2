#include "longhaul/sync/fedavg.h"

#include <algorithm>

#include "longhaul/base/decimal.h"
#include "longhaul/sync/entry.h"
#include "longhaul/sync/flat.h"

namespace longhaul::sync {
namespace {

// The key of a draw: all nodes make the same draw for the same key.
struct Draw {
  double fraction;
  Round round;
  Epoch epoch;
  LONGHAUL_FIELDS(fraction, round, epoch)
};

// The workers that compute in `round`: max(1, round(fraction * n)) of the n live ones, ascending;
// drawn by (seed, round), so that all nodes know them without a message.
RankList draw_workers(double fraction, Round round, const Turn& turn) {
  const RankList live = live_workers(turn);
  const auto count = std::size_t(std::max(1.0, whole_nearest(fraction * double(live.size()))));
  if (count == live.size()) return live;  // all of them, in order of rank as they are
  return turn.place().members.once("drawn", to_wire(Draw{fraction, round, turn.view().epoch}), [&] {
    std::vector<Rank> workers = live;
    turn.random(Purpose::members, round, 0).shuffle(std::span(workers));
    workers.resize(count);
    std::ranges::sort(workers);
    return workers;
  });
}

}  // namespace

// A node that returns begins with a fresh local optimiser; the model and the outer optimiser are
// handed over.
SyncEntry FedAvg::entry() {
  return strategy_entry<FedAvg>(
      {.name = "fedavg",
       .summary = "average the updates of some local steps (FedAvg, local SGD)",
       .traits = {.takes_gaps = true,
                  .when_lost =
                      "goes on without it, weights renormalised; ends the run below min_sites",
                  .lets_return = true},
       .costs = {{.rounds = "every H steps (20)",
                  .sent = "an exchange of S",
                  .waits_for = "all, every H steps",
                  .staleness = "0",
                  .memory = "anchor: S"},
                 {.variant = "with a timeout",
                  .settings = {{"round_timeout_s", {30.0}}},
                  .rounds = "every H steps (20)",
                  .sent = "an exchange of S, or nothing",
                  .waits_for = "all, for the timeout at most",
                  .staleness = "0; of late updates the rounds that they took",
                  .memory = "anchor: S; while late 3 S"}},
       .adapt = adapt_by_time<FedAvg::Config>});
}

// The last round has set x_k <- X. S_t computes; the other workers wait for its mean.
void FedAvg::begin_round(Turn& turn) {
  if (continues_late(turn)) return;
  const RankList s_t = draw_workers(config_.fraction, round(), turn);
  if (!s_t.has(turn.self())) return stand_by(turn);
  begin_steps(config_.round_timeout(), turn);
  counting_ = config_.epochs > 0 && !epoch_steps_;
  resetting_ = !counting_ && config_.reset_optimizer;
  if (counting_) return turn.compute(ScratchStep{});
  if (resetting_) return turn.compute(ResetOptimizer{});
  take_steps(turn);
}

void FedAvg::take_steps(Turn& turn) {
  turn.compute(local_step(turn), config_.epochs > 0 ? *epoch_steps_ : steps_);
}

// E epochs of n_k samples in batches of as many as the step on a copy had. A learner that does not
// tell how many it holds takes `steps`.
void FedAvg::on_computed(const Computed& computed, Turn& turn) {
  if (ends_for_close(counting_ || resetting_ ? 0 : computed.steps, turn)) return;
  if (std::exchange(counting_, false)) {
    const double epoch =
        double(computed.shard_size) / double(std::max<std::uint64_t>(computed.samples, 1));
    epoch_steps_ =
        epoch == 0 ? steps_ : std::uint32_t(std::max(1.0, whole_up(config_.epochs * epoch)));
    resetting_ = config_.reset_optimizer;
    if (resetting_) return turn.compute(ResetOptimizer{});
    return take_steps(turn);
  }
  if (std::exchange(resetting_, false)) return take_steps(turn);
  end_steps(computed, turn);  // ubar <- sum n_k u_k / sum n_k
}

void FedAvg::state(Archive& ar) {
  RoundsWithDeadline::state(ar);
  ar(resetting_, steps_, epoch_steps_, counting_);
}

}  // namespace longhaul::sync
