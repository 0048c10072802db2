#include "longhaul/sync/nbsync.h"

#include "longhaul/sync/fedavg.h"

namespace longhaul::sync {
namespace {
std::size_t parameters(const Turn& turn) {
  return turn.place().phantom ? 0 : turn.place().layout->parameters().length;
}
}  // namespace

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
  mark_.assign(x.begin(), x.begin() + std::ptrdiff_t(parameters(turn)));
  since_ = turn.now();
}

// The first window's update is made by its first steps; the others' were taken at the swap.
void NBSync::begin_round(Turn& turn) {
  if (round() > 0) hand_over(turn);
}

void NBSync::on_step(const StepResult& result, Turn&) {
  ++steps_;
  loss_ += (result.loss - loss_) / double(steps_);
  samples_ += result.samples;
  shard_size_ = result.shard_size;
}

void NBSync::on_computed(const Computed&, Turn& turn) {
  computing_ = false;
  if (round() > 0 || !working() || steps_ < config_.first) return;
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
  progress_.steps = std::exchange(steps_, 0);
  progress_.loss = std::exchange(loss_, 0);
  progress_.samples = std::exchange(samples_, 0);
  progress_.shard_size = shard_size_;
}

// DELTA(t, d, h). p_i = 1/N, or by samples; by steps: the mean of d_i / h_i times that of h_i.
void NBSync::hand_over(Turn& turn) {
  const Progress& d = progress_;
  const bool by_steps = config_.weights == "steps";
  std::vector<float> per_step;
  LocalResult mine{.values = d.update,
                   .buffers = d.buffers,
                   .weight = config_.weights == "samples" ? double(d.shard_size) : 1.0,
                   .loss = d.loss,
                   .samples = d.samples};
  if (mine.weight == 0) mine.weight = 1;  // a learner that does not tell
  if (by_steps) {
    per_step = d.update;
    for (float& v : per_step) v /= float(d.steps);
    mine.values = per_step;
    mine.scalars = {float(d.steps)};
  }
  turn.record("steps", round(), double(d.steps));
  // Of everybody's update, whatever the speeds: the weak dependency.
  turn.record("staleness", round(), round() > 0 ? 1 : 0);
  contribute(mine, turn);
}

// MODEL(t) is here, and x stands at a step boundary.
void NBSync::mean_came(Turn& turn) { take_progress(turn); }

// W_t = W_{t-1} + eta_g sum p_i d_i
void NBSync::use_mean(std::span<float> mean, Turn& turn) {
  if (config_.weights == "steps" && !turn.place().phantom)
    for (float& v : mean) v *= mean_scalars()[0];
  const auto eta_g = float(config_.global_rate);
  for (std::size_t i = 0; i < mean.size(); ++i) w_[i] += eta_g * mean[i];
  const auto buffers = turn.params().subspan(mark_.size());
  std::copy(buffers.begin(), buffers.end(), w_.begin() + std::ptrdiff_t(mark_.size()));
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
  end_round(w_, turn);
}

// The next step, unless the window has enough of them or the others have been silent for long.
void NBSync::on_idle(Turn& turn) {
  if (computing_ || closing_) return;
  const bool full = config_.max_steps > 0 && steps_ >= config_.max_steps;
  if (full || orphaned(turn)) {
    if (!paused_) paused_ = turn.now();
    return;
  }
  if (paused_) turn.record("window_wait_s", round(), seconds(turn.now() - *paused_));
  paused_.reset();
  computing_ = true;
  turn.compute(LocalStep{});
}

bool NBSync::orphaned(const Turn& turn) const {
  return turn.now() - since_ > std::max(from_seconds(config_.orphan_s), 5 * last_) && steps_ > 0;
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
  ar(w_, mark_, progress_, steps_, loss_, samples_, shard_size_, since_, last_, paused_, computing_,
     closing_);
}

}  // namespace longhaul::sync
