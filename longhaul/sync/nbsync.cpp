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
  LH_TRY(check_min_clients(config.min_clients, place));
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
  if (round() == 0) return;
  const bool has_some = progress_.computed.steps > 0 || late_;
  has_some ? hand_over(turn) : stand_by(turn);
}

void NBSync::on_step(const StepResult& result, Turn&) {
  if (!resetting_) window_.add(result);
}

void NBSync::on_computed(const Computed&, Turn& turn) {
  computing_ = false;
  const bool was_reset = std::exchange(resetting_, false);
  deadline_.reset();
  is_overdue_ = false;
  if (is_behind_) return catch_up(turn);
  if (was_reset) return;
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
  progress_.since = version_;
}

void NBSync::Progress::add(Progress later) {
  LH_CHECK(update.size() == later.update.size());
  for (std::size_t i = 0; i < update.size(); ++i) update[i] += later.update[i];
  buffers = std::move(later.buffers);
  computed.add(later.computed);
}

// DELTA(t, d, h). p_i = 1/N, or by samples; normalised: the mean of d_i / h_i times that of h_i.
void NBSync::hand_over(Turn& turn) {
  Progress d = std::exchange(progress_, {});  // from here on the overlay has it
  if (late_) {
    if (d.computed.steps > 0) late_->add(std::move(d));
    d = std::exchange(late_, std::nullopt).value();
  }
  std::vector<float> steps = norm().divide(d.update, d.computed);
  turn.record("steps", round(), double(d.computed.steps));
  // 1 of everybody's update, whatever the speeds: the weak dependency. More of one that is late.
  const Round staleness = round() - d.since;
  turn.record("staleness", round(), double(staleness));
  if (staleness > 1) turn.record("late", round(), double(staleness - 1));
  contribute({.values = d.update,
              .buffers = d.buffers,
              .weight = norm().weight(d.computed),
              .loss = d.computed.loss,
              .samples = d.computed.samples,
              .scalars = std::move(steps)},
             turn);
  if (quorum() > 1) given_ = std::move(d);
}

// MODEL(t) is here, and x stands at a step boundary.
void NBSync::mean_came(Turn& turn) {
  if (!is_overdue_) return take_progress(turn);
  is_behind_ = true;
}

// W_t = W_{t-1} + eta_g sum p_i d_i
void NBSync::use_mean(std::span<float> mean, Turn& turn) {
  norm().multiply(mean, mean_scalars());
  const auto eta_g = float(config_.global_rate);
  for (std::size_t i = 0; i < mean.size(); ++i) w_[i] += eta_g * mean[i];
  given_.reset();
  if (is_behind_) return end_window(turn);
  std::ranges::copy(buffers(turn), w_.begin() + std::ptrdiff_t(mark_.size()));
  swap(turn);
}

// What was given to a mean of too few is given again. If all are late the next window waits for
// the deadline once more.
void NBSync::use_nothing(Turn& turn) {
  if (auto again = std::exchange(given_, std::nullopt)) {
    if (late_) again->add(*std::move(late_));
    late_ = std::move(again);
  }
  is_overdue_ = false;
  is_behind_ ? end_window(turn) : swap(turn);
}

void NBSync::swap(Turn& turn) {
  install(config_.keep, turn);
  version_ = round() + 1;
  to_reset_ = config_.reset_optimizer;
  end_window(turn);
}

void NBSync::end_window(Turn& turn) {
  last_ = turn.now() - std::exchange(since_, turn.now());
  times_.add(last_);
  end_round(w_, turn);
}

// The step that windows went on without is done: x is the newest W, and what it was from is late.
void NBSync::catch_up(Turn& turn) {
  const bool drops = config_.late == "drop";
  take_progress(turn);
  is_behind_ = false;
  install(drops ? 0 : config_.keep, turn);
  version_ = round();
  to_reset_ = config_.reset_optimizer;
  Progress d = std::exchange(progress_, {});
  if (d.computed.steps == 0) return;
  if (drops) return turn.record("late_dropped", round(), double(d.computed.steps));
  if (late_)
    late_->add(std::move(d));
  else
    late_ = std::move(d);
}

// x = W_t + keep (x - mark);  mark = x. What of x - mark is not kept comes back in W_{t+1}.
void NBSync::install(double keep, Turn& turn) {
  const auto x = turn.params();
  const auto beta = float(keep);
  std::copy(w_.begin(), w_.end(), x.begin());
  if (beta > 0)
    for (std::size_t i = 0; i < mark_.size(); ++i) x[i] += beta * progress_.update[i];
  std::copy_n(x.begin(), mark_.size(), mark_.begin());
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
  computing_ = closing_ = resetting_ = to_reset_ = is_overdue_ = is_behind_ = false;
  deadline_.reset();
  late_.reset();
  given_.reset();
  times_ = {};
  version_ = round();
  stands_by_ = true;
}

// The next step, unless the window has enough of them or the others have been silent for long.
void NBSync::on_idle(Turn& turn) {
  if (computing_) return watch_step(turn);
  if (closing_) return;
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

// The others wait for the end of this worker's step, for the deadline at most.
void NBSync::watch_step(Turn& turn) {
  if (config_.window_deadline == 0 || deadline_ || is_overdue_ || !mean_is_here(turn)) return;
  const auto allowed = times_.medians(config_.window_deadline);
  if (!allowed) return;
  deadline_ = turn.now() + *allowed;
  turn.set_timer(*this, kDeadline, *deadline_);
}

void NBSync::on_timer(TimerId, Turn& turn) {
  if (!deadline_ || turn.now() < *deadline_) return;
  deadline_.reset();
  is_overdue_ = computing_ && mean_is_here(turn);
  on_progress(turn);
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
  if (late_) turn.record("late_dropped", round(), double(late_->computed.steps));
  late_.reset();
  std::copy(w_.begin(), w_.end(), turn.params().begin());
  return true;
}

void NBSync::state(Archive& ar) {
  Synchronous::state(ar);
  ar(w_, mark_, progress_, window_, since_, last_, paused_, computing_, stands_by_, closing_,
     to_reset_, resetting_);
  ar(late_, given_, version_, times_, deadline_, is_overdue_, is_behind_);
}

}  // namespace longhaul::sync
