#include "longhaul/sync/esync.h"

#include <algorithm>
#include <cmath>

#include "longhaul/sync/fedavg.h"

namespace longhaul::sync {

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
    : Synchronous("esync", std::move(parts), config.min_sites, service(config)),
      config_(config),
      states_(static_cast<esync::States*>(Synchronous::service())) {}

Status ESync::check(const Config& config, const Place& place) {
  return check_min_sites(config.min_sites, place);
}

void ESync::begin_run(Turn& turn) { local_.anchor(turn); }

// base = w; k = 0. Before the first round a step is timed on a copy.
void ESync::begin_round(Turn& turn) {
  steps_ = 0;
  granted_ = is_public() ? 0 : 1;  // every worker takes one: no need to ask
  last_ = false;
  loss_ = 0;
  samples_ = 0;
  if (step_s_) return;
  computing_ = true;
  turn.compute(ScratchStep{});
}

void ESync::on_computed(const Computed& computed, Turn&) {
  computing_ = false;
  const bool timed = !step_s_;
  step_s_ = seconds(computed.elapsed);
  if (timed) return;
  ++steps_;
  loss_ += (computed.loss - loss_) / double(steps_);
  samples_ += computed.samples;
  shard_size_ = computed.shard_size;
}

// On GRANT(go, n): n local steps. On GRANT(aggregate): the update, at the step boundary.
void ESync::on_idle(Turn& turn) {
  if (!working() || computing_) return;
  if (const auto more = states_->granted()) {
    last_ |= *more == 0;
    granted_ = std::min(granted_ + *more, config_.max_steps);
  }
  last_ |= granted_ >= config_.max_steps;
  if (waits_ && (steps_ < granted_ || last_)) {
    turn.cancel_timer(kUnanswered);
    turn.record("grant_wait_s", round(), seconds(turn.now() - *waits_));
    waits_.reset();
  }
  if (steps_ < granted_) return take_step(turn);
  if (last_ && steps_ > 0) return give(turn);
  if (!states_->asking()) ask(0, turn);
  if (waits_) return;
  waits_ = turn.now();
  const double patience = std::max(config_.state_timeout_s, 3 * step_s_.value_or(0));
  turn.set_timer(kUnanswered, turn.now() + from_seconds(patience));
}

// One step; with the last that is granted goes the next question, sooner if answers take longer.
void ESync::take_step(Turn& turn) {
  computing_ = true;
  turn.compute(LocalStep{});
  const std::uint32_t left = granted_ - steps_;
  if (!is_public() && !last_ && !states_->asking() && left <= look_ahead()) ask(left, turn);
}

std::uint32_t ESync::look_ahead() const {
  if (*step_s_ <= 0) return 1;
  const double steps = std::ceil(seconds(states_->rtt()) / *step_s_);
  return std::uint32_t(std::clamp(steps, 1.0, double(config_.lease)));
}

// QUERY(t, k, c, d)
void ESync::ask(std::uint32_t ahead, Turn& turn) {
  Turn below = within(*states_, turn);
  states_->ask({.round = round(),
                .steps = steps_ + ahead,
                .ahead = ahead,
                .step_s = *step_s_,
                .push_s = seconds(overlay().giving())},
               below);
}

// PUSH(w - base)
void ESync::give(Turn& turn) {
  double weight = 1;
  if (config_.weights == "samples" && shard_size_ > 0) weight = double(shard_size_);
  if (config_.weights == "inverse_steps") weight = 1.0 / steps_;
  steps_before_ = steps_;
  turn.record("steps", round(), double(steps_));
  const Computed all{
      .steps = steps_, .loss = loss_, .samples = samples_, .shard_size = shard_size_};
  contribute(local_.update(turn), weight, all, turn);
}

// w = W + outer(mean)
void ESync::use_mean(std::span<float> mean, Turn& turn) {
  local_.apply(mean, outer(), turn);
  end_round(turn);
}

// The state server does not answer, and is not known to be lost: as in the last round.
void ESync::on_timer(TimerId, Turn& turn) {
  if (!waits_) return;
  states_->give_up();
  turn.record("unanswered", round(), 1);
  granted_ = std::max(steps_, std::min(steps_before_, config_.max_steps));
  last_ = true;
  on_idle(turn);
}

std::string ESync::waiting_for() const {
  return working() && waits_ ? states_->waiting_for() : Synchronous::waiting_for();
}

void ESync::state(Archive& ar) {
  Synchronous::state(ar);
  ar(local_, step_s_, steps_, granted_, last_, steps_before_);
  ar(loss_, samples_, shard_size_, computing_, waits_);
}

}  // namespace longhaul::sync
