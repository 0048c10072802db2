#include "longhaul/sync/nbsync.h"

#include "longhaul/sync/entry.h"
#include "longhaul/sync/flat.h"

namespace longhaul::sync {

// No outer optimiser: momentum on top of a delay of a window overshoots.
SyncEntry NBSync::entry() {
  return strategy_entry<NBSync>(
      {.name = "nbsync",
       .summary = "local steps go on while the updates of the last window are averaged",
       .traits = {.bits = Bits::schedule,
                  .takes_outer = false,
                  .takes_gaps = true,
                  .when_lost = "the open window ends without it, nobody pauses for it",
                  .lets_return = true},
       // Windows short enough for a few rounds to get somewhere, and full now and then.
       .small = {{"max_steps", {std::int64_t{4}}}},
       .costs = {{.rounds = "when the last has come back",
                  .sent = "an exchange of S",
                  .waits_for = "nobody",
                  .staleness = "1 round",
                  .memory = "W, mark, update: 3 S"}}});
}

Status NBSync::check(const Config& config, const Place& place) {
  if (config.max_steps > 0 && config.max_steps < config.first)
    return invalid("[sync] max_steps = " + std::to_string(config.max_steps) +
                   " is less than first = " + std::to_string(config.first) +
                   ": nothing would ever be exchanged");
  return check_min_sites(config.min_sites, place);
}

// x = mark = W_0
void NBSync::begin_run(Turn& turn) {
  const auto x = turn.params();
  w_.assign(x.begin(), x.end());
  const auto p = parameters(turn);
  mark_.assign(p.begin(), p.end());
  since_ = turn.now();
}

// The first window's update is made by its first steps; the others' were taken at the swap.
void NBSync::begin_round(Turn& turn) {
  if (std::exchange(stands_by_, false)) return stand_by(turn);
  if (round() > 0) hand_over(turn);
}

void NBSync::on_step(const StepResult& result, Turn&) {
  if (!resetting_) window_.add(result);
}

void NBSync::on_computed(const Computed&, Turn& turn) {
  computing_ = false;
  if (std::exchange(resetting_, false)) return;
  if (round() > 0 || !working() || window_.steps < config_.first) return;
  take_progress(turn);
  hand_over(turn);
}

// d = x - mark;  mark = x;  h = 0
void NBSync::take_progress(Turn& turn) {
  const auto x = turn.params();
  progress_.update.resize(mark_.size());
  for (std::size_t i = 0; i < mark_.size(); ++i)
    progress_.update[i] = x[i] - std::exchange(mark_[i], x[i]);
  progress_.buffers.assign(x.begin() + std::ptrdiff_t(mark_.size()), x.end());
  progress_.computed = std::exchange(window_, {});
}

// DELTA(t, d, h). p_i = 1/N, or by samples; normalised: the mean of d_i / h_i times that of h_i.
void NBSync::hand_over(Turn& turn) {
  Progress d = std::exchange(progress_, {});  // from here on the overlay has it
  std::vector<float> steps = norm().divide(d.update, d.computed);
  turn.record("steps", round(), double(d.computed.steps));
  // Of everybody's update, whatever the speeds: the weak dependency.
  turn.record("staleness", round(), round() > 0 ? 1 : 0);
  contribute({.values = d.update,
              .buffers = d.buffers,
              .weight = norm().weight(d.computed),
              .loss = d.computed.loss,
              .samples = d.computed.samples,
              .scalars = std::move(steps)},
             turn);
}

// MODEL(t) is here, and x stands at a step boundary.
void NBSync::mean_came(Turn& turn) { take_progress(turn); }

// W_t = W_{t-1} + eta_g sum p_i d_i
void NBSync::use_mean(std::span<float> mean, Turn& turn) {
  norm().multiply(mean, mean_scalars());
  const auto eta_g = float(config_.global_rate);
  for (std::size_t i = 0; i < mean.size(); ++i) w_[i] += eta_g * mean[i];
  std::ranges::copy(buffers(turn), w_.begin() + std::ptrdiff_t(mark_.size()));
  swap(turn);
}

void NBSync::use_nothing(Turn& turn) { swap(turn); }

// x = W_t + keep (x - mark);  mark = x. What of x - mark is not kept comes back in W_{t+1}.
void NBSync::swap(Turn& turn) {
  const auto x = turn.params();
  const auto beta = float(config_.keep);
  std::copy(w_.begin(), w_.end(), x.begin());
  if (beta > 0)
    for (std::size_t i = 0; i < mark_.size(); ++i) x[i] += beta * progress_.update[i];
  std::copy_n(x.begin(), mark_.size(), mark_.begin());
  last_ = turn.now() - std::exchange(since_, turn.now());
  to_reset_ = config_.reset_optimizer;
  end_round(w_, turn);
}

// It was given W_t; what the sender has computed in its windows is not this worker's. It gives its
// first update a window later.
void NBSync::on_returned(Turn& turn) {
  progress_ = {};
  window_ = {};
  w_.resize(turn.params().size());  // it has that size, or the sender lies
  std::ranges::copy(w_, turn.params().begin());
  std::copy_n(w_.begin(), mark_.size(), mark_.begin());
  since_ = turn.now();
  last_ = Time{0};
  paused_.reset();
  computing_ = closing_ = resetting_ = to_reset_ = false;
  stands_by_ = true;
}

// The next step, unless the window has enough of them or the others have been silent for long.
void NBSync::on_idle(Turn& turn) {
  if (computing_ || closing_) return;
  const bool full = config_.max_steps > 0 && window_.steps >= config_.max_steps;
  if (full || orphaned(turn)) {
    if (!paused_) paused_ = turn.now();
    return;
  }
  if (paused_) turn.record("window_wait_s", round(), seconds(turn.now() - *paused_));
  paused_.reset();
  computing_ = true;
  resetting_ = std::exchange(to_reset_, false);
  if (resetting_) return turn.compute(ResetOptimizer{});
  turn.compute(LocalStep{});
}

bool NBSync::orphaned(const Turn& turn) const {
  return turn.now() - since_ > std::max(from_seconds(config_.orphan_s), 5 * last_) &&
         window_.steps > 0;
}

// It computes meanwhile.
void NBSync::waited(Wait what, Time took, Turn& turn) {
  if (what == Wait::exchange) turn.record("sync_s", round(), seconds(took));
}

// What was computed since the last swap belongs to a window that will not be.
bool NBSync::close(Turn& turn) {
  closing_ = true;
  if (computing_) return false;
  std::copy(w_.begin(), w_.end(), turn.params().begin());
  return true;
}

void NBSync::state(Archive& ar) {
  Synchronous::state(ar);
  ar(w_, mark_, progress_, window_, since_, last_, paused_, computing_, stands_by_, closing_,
     to_reset_, resetting_);
}

}  // namespace longhaul::sync
