#include "longhaul/sync/esync.h"

#include <algorithm>

#include "longhaul/base/decimal.h"
#include "longhaul/sync/entry.h"
#include "longhaul/sync/flat.h"

namespace longhaul::sync {

SyncEntry ESync::entry() {
  return strategy_entry<ESync>(
      {.name = "esync",
       .summary = "fast workers take local steps until the slowest is about to arrive",
       .traits = {.bits = Bits::schedule,
                  .takes_gaps = true,
                  .when_lost =
                      "goes on without it; another state server begins with what it is told",
                  .lets_return = true},
       .costs = {{.rounds = "every k steps, the slowest's 1",
                  .sent = "an exchange of S; 2 + k/16 questions",
                  .waits_for = "all",
                  .staleness = "0",
                  .memory = "anchor: S"}}});
}

std::unique_ptr<Machine> ESync::service(const Config& config) {
  if (config.mode == "public")
    return std::make_unique<esync::States>(
        esync::ReachTime::Config{.margin_s = config.margin_s.value_or(0.5),
                                 .lease = 1,
                                 .smoothing = 1,
                                 .with_push = false},
        /*with_delay=*/false);
  return std::make_unique<esync::States>(
      esync::ReachTime::Config{
          .margin_s = config.margin_s, .lease = config.lease, .smoothing = config.smoothing},
      /*with_delay=*/true);
}

ESync::ESync(const Config& config, SyncParts parts)
    : RoundsWithDeadline(entry(), std::move(parts), config.min_sites,
                         {.drops = config.late == "drop", .min_clients = config.min_clients},
                         service(config)),
      config_(config),
      states_(static_cast<esync::States*>(Synchronous::service())) {}

Status ESync::check(const Config& config, const Place& place) {
  if (config.round_deadline > 0 && config.round_deadline < 1)
    return invalid("[sync] round_deadline: expected 0, or 1 and more medians of a round, found " +
                   std::to_string(config.round_deadline) + ": all workers would be late");
  LH_TRY(check_min_clients(config.min_clients, place));
  return check_min_sites(config.min_sites, place);
}

// base = w; k = 0. Before the first round a step is timed on a copy.
void ESync::begin_round(Turn& turn) {
  if (began_) times_.add(turn.now() - *began_);
  began_ = turn.now();
  if (continues_late(turn)) return;
  granted_ = is_public() ? 0 : 1;  // every worker takes one: no need to ask
  last_ = false;
  is_cut_ = false;
  taken_ = {};
  const bool limited = config_.round_deadline > 0 && step_s_;
  begin_steps(limited ? times_.medians(config_.round_deadline) : std::nullopt, turn);
  if (step_s_) return;
  computing_ = true;
  turn.compute(ScratchStep{});
}

void ESync::on_step(const StepResult& step, Turn&) {
  if (step_s_) taken_.add(step);
  step_s_ = seconds(step.elapsed);
}

void ESync::on_computed(const Computed&, Turn& turn) {
  computing_ = false;
  if (ends_for_close(taken_.steps, turn)) return;
  if (is_behind()) give(turn);  // the round that its steps are of is over
}

// What is done is given at the next boundary. A worker that has nothing, or whose step takes more
// than twice as long as its last one, gives nothing.
void ESync::on_deadline(Turn& turn) {
  if (taken_.steps > 0 && !is_cut_ && !is_behind()) {
    is_cut_ = last_ = true;
    granted_ = taken_.steps;
    states_->give_up();
    if (computing_) set_deadline(from_seconds(2 * *step_s_), turn);
    return;
  }
  if (!computing_) return extend_deadline(turn);  // it has been granted no step yet
  miss_deadline(turn);
  Turn below = within(*states_, turn);
  states_->tell_late(round(), below);
}

// On GRANT(go, n): n local steps. On GRANT(aggregate): the update, at the step boundary.
void ESync::on_idle(Turn& turn) {
  if (!working() || computing_) return;
  if (const auto more = states_->granted()) {
    last_ |= *more == 0;
    granted_ = std::min(granted_ + *more, config_.max_steps);
  }
  last_ |= granted_ >= config_.max_steps;
  if (waits_ && (taken_.steps < granted_ || last_)) {
    turn.cancel_timer(*this, kUnanswered);
    turn.record("grant_wait_s", round(), seconds(turn.now() - *waits_));
    waits_.reset();
  }
  if (taken_.steps < granted_) return take_step(turn);
  if (last_ && taken_.steps > 0) return give(turn);
  if (!states_->asking()) ask(0, turn);
  if (waits_) return;
  waits_ = turn.now();
  const double patience = std::max(config_.state_timeout_s, 3 * step_s_.value_or(0));
  turn.set_timer(*this, kUnanswered, turn.now() + from_seconds(patience));
}

// One step; with the last that is granted goes the next question, sooner if answers take longer.
void ESync::take_step(Turn& turn) {
  computing_ = true;
  turn.compute(LocalStep{});
  const std::uint32_t left = granted_ - taken_.steps;
  if (!is_public() && !last_ && !states_->asking() && left <= look_ahead()) ask(left, turn);
}

std::uint32_t ESync::look_ahead() const {
  if (*step_s_ <= 0) return 1;
  const double steps = whole_up(seconds(states_->rtt()) / *step_s_);
  return std::uint32_t(std::clamp(steps, 1.0, double(config_.lease)));
}

// QUERY(t, k, c, d)
void ESync::ask(std::uint32_t ahead, Turn& turn) {
  Turn below = within(*states_, turn);
  states_->ask({.round = round(),
                .steps = taken_.steps + ahead,
                .ahead = ahead,
                .step_s = *step_s_,
                .push_s = seconds(gave())},
               below);
}

// PUSH(w - base)
void ESync::give(Turn& turn) {
  std::vector<float> update = update_of_steps(turn);
  std::vector<float> scalars = norm().divide(update, taken_);
  const auto rest = buffers(turn);
  steps_before_ = taken_.steps;
  turn.record("steps", round(), double(taken_.steps));
  end_steps(
      {.values = std::move(update),
       .buffers = {rest.begin(), rest.end()},
       .scalars = std::move(scalars),
       .weight = config_.weights == "inverse_steps" ? 1.0 / taken_.steps : norm().weight(taken_),
       .loss = taken_.loss,
       .samples = taken_.samples,
       .steps = taken_.steps},
      turn);
}

// w = W + outer(mean)
void ESync::use_mean(std::span<float> mean, Turn& turn) {
  norm().multiply(mean, mean_scalars());
  apply(mean, turn);
}

// Times and steps are the sender's: this worker times a step of its own before it asks for any.
void ESync::on_returned(Turn& turn) {
  RoundsWithDeadline::on_returned(turn);
  began_.reset();
  times_ = {};
  step_s_.reset();
  taken_ = {};
  steps_before_ = 1;
  computing_ = false;
  waits_.reset();
}

// The state server does not answer, and is not known to be lost: as in the last round.
void ESync::on_timer(TimerId id, Turn& turn) {
  if (id != kUnanswered) return RoundsWithDeadline::on_timer(id, turn);
  if (!waits_) return;
  states_->give_up();
  turn.record("unanswered", round(), 1);
  granted_ = std::max(taken_.steps, std::min(steps_before_, config_.max_steps));
  last_ = true;
  on_progress(turn);
}

std::string ESync::waiting_for() const {
  return working() && waits_ ? states_->waiting_for() : Synchronous::waiting_for();
}

void ESync::state(Archive& ar) {
  RoundsWithDeadline::state(ar);
  ar(step_s_, taken_, granted_, last_, steps_before_, computing_, waits_, is_cut_, began_, times_);
}

}  // namespace longhaul::sync
