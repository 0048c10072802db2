#include "longhaul/run/lane_learner.h"

#include <algorithm>

namespace longhaul::run {

LaneLearner::LaneLearner(std::unique_ptr<Learner> shared,
                         std::vector<std::unique_ptr<Learner>> lanes,
                         std::function<void()> on_thread_start)
    : shared_(std::move(shared)) {
  LH_CHECK(!lanes.empty());
  for (auto& learner : lanes) {
    LH_CHECK(learner->params().size() == shared_->params().size());
    lanes_.push_back({.learner = std::move(learner)});
  }
  last_ = lanes_.size() - 1;
  for (Lane& lane : lanes_)
    lane.thread = std::thread([this, &lane, on_thread_start] { work(lane, on_thread_start); });
}

LaneLearner::~LaneLearner() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  begun_.notify_all();
  for (Lane& lane : lanes_) lane.thread.join();
}

void LaneLearner::work(Lane& lane, const std::function<void()>& on_thread_start) {
  if (on_thread_start) on_thread_start();
  std::unique_lock lock(mutex_);
  while (true) {
    begun_.wait(lock, [&] { return over_ || lane.computes; });
    if (over_) return;
    lock.unlock();
    auto result = lane.learner->step(Gradient{});
    lock.lock();
    lane.computes = false;
    lane.done = std::move(result);
    ended_.notify_all();
  }
}

void LaneLearner::start(Lane& lane) {
  std::ranges::copy(shared_->params(), lane.learner->params().begin());
  {
    const std::lock_guard lock(mutex_);
    lane.done.reset();
    lane.computes = true;
  }
  begun_.notify_all();
}

LaneLearner::Lane& LaneLearner::next_done(std::unique_lock<std::mutex>& lock) {
  Lane* found = nullptr;
  ended_.wait(lock, [&] {
    for (std::size_t i = 1; i <= lanes_.size() && !found; ++i)
      if (Lane& lane = lanes_[(last_ + i) % lanes_.size()]; lane.done) found = &lane;
    return found != nullptr;
  });
  last_ = std::size_t(found - lanes_.data());
  return *found;
}

// Running statistics move with a lane's batch: the last one's stand.
Result<StepResult> LaneLearner::apply(Lane& lane) {
  if (!*lane.done) return *lane.done;
  StepResult result = **lane.done;
  std::ranges::copy(lane.learner->grads(), shared_->grads().begin());
  if (!shared_->params().empty()) {
    const Range buffers = layout()->buffers();
    std::ranges::copy(lane.learner->params().subspan(buffers.offset, buffers.length),
                      shared_->params().begin() + std::ptrdiff_t(buffers.offset));
  }
  auto applied = shared_->step(ApplyGradient{});
  if (!applied) return applied;
  result.shard_size = applied->shard_size;
  samples_ += result.samples;
  result.exhausted = samples_ >= result.shard_size;
  if (result.exhausted) samples_ -= result.shard_size;
  return result;
}

Result<StepResult> LaneLearner::step(const Work& work) {
  if (!std::holds_alternative<LocalStep>(work)) return shared_->step(work);
  for (Lane& lane : lanes_) {
    std::unique_lock lock(mutex_);
    const bool rests = !lane.computes && !lane.done;
    lock.unlock();
    if (rests) start(lane);
  }
  std::unique_lock lock(mutex_);
  Lane& lane = next_done(lock);
  lock.unlock();
  auto result = apply(lane);
  if (result) start(lane);
  return result;
}

void LaneLearner::state(Archive& ar) {
  ar.expect("lanes");
  std::unique_lock lock(mutex_);
  ended_.wait(lock, [&] {
    return std::ranges::none_of(lanes_, [](const Lane& lane) { return lane.computes; });
  });
  lock.unlock();  // nothing computes, and nothing begins but by step()
  shared_->state(ar);
  std::uint64_t last = last_;
  ar(samples_, last);
  if (last >= lanes_.size()) return ar.fail("lanes: one that there is not");
  last_ = std::size_t(last);
  for (Lane& lane : lanes_) {
    lane.learner->state(ar);
    // A lane that has failed ends the run: its gradient is not wanted again.
    std::optional<StepResult> done;
    if (lane.done && *lane.done) done = **lane.done;
    ar(done);
    if (!ar.loading()) continue;
    lane.done.reset();
    if (done) lane.done.emplace(*done);
  }
}

}  // namespace longhaul::run
