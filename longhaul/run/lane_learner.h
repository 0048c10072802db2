#pragma once
// The lanes of one trainer, each with its own thread and learner.
//   Recht, Re, Wright, Niu, "Hogwild!: a lock-free approach to parallelizing stochastic gradient
//   descent", NIPS 2011; in trainers of ShadowSync: arXiv 2003.03477.
//
// A lane reads all shared parameters and computes the gradient of its next batch there. The single
// optimiser of all lanes applies that gradient to the current parameters. As in Hogwild, a lane
// waits for no other lane, so its gradient misses the updates applied meanwhile. Unlike Hogwild,
// the thread that calls step() reads and applies, one lane after another. No gradient is lost or
// torn, and the parameters belong to the strategy between two steps. These two operations are
// copies. The gradients, which take most of the time, are computed in parallel. The order in which
// lanes finish depends on the threads, so two runs are not equal.
#include <algorithm>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "longhaul/core/learner.h"

namespace longhaul::run {

class LaneLearner final : public Learner {
 public:
  // `shared` has the parameters and the optimiser. It reads its own batches only for ScratchStep
  // and Score. A lane's learner holds its part of the samples. All layouts are equal.
  // `on_thread_start` may be empty.
  LaneLearner(std::unique_ptr<Learner> shared, std::vector<std::unique_ptr<Learner>> lanes,
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

  // Waits for the gradients in progress.
  ~LaneLearner() override {
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
    }
    begun_.notify_all();
    for (Lane& lane : lanes_) lane.thread.join();
  }

  std::shared_ptr<const Layout> layout() const override { return shared_->layout(); }
  std::span<float> params() override { return shared_->params(); }
  std::span<float> grads() override { return shared_->grads(); }
  // LocalStep: applies the next lane's gradient. From the first one on all lanes compute, also
  // between two calls. An epoch ends after as many samples as all lanes hold. `shared` does any
  // other work. Returns a lane's Error from the step that would apply its gradient.
  Result<StepResult> step(const Work& work) override {
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

  // Waits for the gradients in progress, which are saved and applied after loading.
  void state(Archive& ar) override {
    ar.expect("lanes");
    std::unique_lock lock(mutex_);
    ended_.wait(lock, [&] {
      return std::ranges::none_of(lanes_, [](const Lane& lane) { return lane.computes; });
    });
    lock.unlock();  // no lane computes, and only step() starts one
    shared_->state(ar);
    std::uint64_t last = last_;
    ar(samples_, last);
    if (last >= lanes_.size()) return ar.fail("lanes: one that there is not");
    last_ = std::size_t(last);
    for (Lane& lane : lanes_) {
      lane.learner->state(ar);
      // A failed lane ends the run, so its gradient is not saved.
      std::optional<StepResult> done;
      if (lane.done && *lane.done) done = **lane.done;
      ar(done);
      if (!ar.loading()) continue;
      lane.done.reset();
      if (done) lane.done.emplace(*done);
    }
  }

 private:
  struct Lane {
    std::unique_ptr<Learner> learner;
    std::optional<Result<StepResult>> done = {};  // the gradient is in its learner
    bool computes = false;
    std::thread thread = {};
  };
  void work(Lane& lane, const std::function<void()>& on_thread_start) {
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

  // Copies the parameters to the lane and starts its gradient.
  void start(Lane& lane) {
    std::ranges::copy(shared_->params(), lane.learner->params().begin());
    {
      const std::lock_guard lock(mutex_);
      lane.done.reset();
      lane.computes = true;
    }
    begun_.notify_all();
  }

  Lane& next_done(std::unique_lock<std::mutex>& lock) {
    Lane* found = nullptr;
    ended_.wait(lock, [&] {
      for (std::size_t i = 1; i <= lanes_.size() && !found; ++i)
        if (Lane& lane = lanes_[(last_ + i) % lanes_.size()]; lane.done) found = &lane;
      return found != nullptr;
    });
    last_ = std::size_t(found - lanes_.data());
    return *found;
  }

  // Applies the lane's gradient. Running statistics become those of this lane's batch.
  Result<StepResult> apply(Lane& lane) {
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

  std::unique_ptr<Learner> shared_;
  std::mutex mutex_;  // guards done, computes, over_, and the learners that they hand over
  std::condition_variable begun_, ended_;
  std::vector<Lane> lanes_;
  std::size_t last_ = 0;       // lane applied last; the next one in order has priority
  std::uint64_t samples_ = 0;  // in the current epoch
  bool over_ = false;
};

}  // namespace longhaul::run
