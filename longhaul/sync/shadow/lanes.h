#pragma once
// Pace counts the work of a trainer during the rounds of its shadow machine. It counts the gap
// (steps since the last completed round), the passes over the trainer's own data, and the work
// since the last snapshot. It also decides when the trainer takes no more steps.
#include <algorithm>
#include <deque>
#include <optional>
#include <utility>

#include "longhaul/base/archive.h"
#include "longhaul/core/machine.h"
#include "longhaul/core/work.h"
#include "longhaul/sync/flat.h"

namespace longhaul::sync::shadow {

class Pace {
 public:
  // `max_gap`: steps; 0: unlimited. `epochs`: passes over its own data; 0: until the run ends.
  Pace(std::uint32_t max_gap, std::uint32_t epochs) : max_gap_(max_gap), epochs_(epochs) {}

  void stepped(const StepResult& result) {
    ++gap_;
    since_snapshot_.add(result);
    if (result.exhausted) ++passes_;
  }
  bool is_done() const { return epochs_ > 0 && passes_ >= epochs_; }  // has used all its data
  bool may_step() const { return !is_done() && (max_gap_ == 0 || gap_ < max_gap_); }
  std::uint64_t gap() const { return gap_; }
  // Steps since the last snapshot.
  std::uint32_t steps() const { return since_snapshot_.steps; }
  // Takes a snapshot, and returns the work since the last one. Without a step the loss is the last
  // known one.
  Computed snapshot() {
    Computed computed = std::exchange(since_snapshot_, {});
    if (computed.steps == 0) computed.loss = loss_;
    loss_ = computed.loss;
    return computed;
  }
  // Ends a round, and returns its gap.
  std::uint64_t completed() { return std::exchange(gap_, 0); }
  // Resets a returned trainer, whose work is lost.
  void begin_anew() { gap_ = 0, since_snapshot_ = {}, loss_ = 0, passes_ = 0; }
  void state(Archive& ar) { ar(gap_, passes_, loss_, since_snapshot_); }

 private:
  const std::uint32_t max_gap_, epochs_;
  std::uint64_t gap_ = 0;
  std::uint64_t passes_ = 0;
  double loss_ = 0;
  Computed since_snapshot_;
};

// The threads of one trainer that train on the same parameters without locks. Each lane reads all
// parameters when its step begins. Its gradient is applied to the current parameters when the step
// ends.
//   Recht, Re, Wright, Niu, "Hogwild!: a lock-free approach to parallelizing stochastic gradient
//   descent", NIPS 2011; in trainers of ShadowSync: arXiv 2003.03477.
//
// The order is ours: the steps of m lanes end one after another, so that a run is a function of job
// and seed. A slot is the time of one computation of the learner (step_ms). A lane's step takes m
// slots and ends in a slot of its own, in which its gradient is computed. A slot in which no step
// ends passes unused. Lanes that start sooner end sooner.
class Lanes {
 public:
  explicit Lanes(std::uint32_t count) : count_(count) {}

  std::uint32_t count() const { return count_; }
  // Returns true between the start and the end of a step.
  bool runs(std::uint32_t lane) const {
    return std::ranges::any_of(running_, [&](const Running& one) { return one.lane == lane; });
  }

  bool none_runs() const { return running_.empty(); }
  // Starts a step at a step boundary: the lane reads the parameters. The first steps end in slots
  // 0, 1, 2 ..., as if the lanes had started one after another.
  void start(std::uint32_t lane, Turn& turn) {
    LH_CHECK(lane < count_ && !runs(lane));
    Running next{.lane = lane, .due = started_ < count_ ? started_ : slot_ + count_ - 1};
    ++started_;
    if (count_ > 1) {
      const auto w = parameters(turn);
      next.began_at.assign(w.begin(), w.end());
    }
    running_.push_back(std::move(next));
  }

  // Requests the computation of the step that ends next (with a single lane, of `steps` steps). If
  // the next slot is unused, sets a timer of `of` instead. Returns false if nothing is computed.
  bool compute(std::uint32_t steps, TimerId timer, const Machine& of, Turn& turn) {
    LH_CHECK(!running_.empty());
    if (is_waiting_) return false;
    if (count_ == 1) {
      turn.compute(LocalStep{}, steps);
      return true;
    }
    if (running_.front().due > slot_) {
      is_waiting_ = true;
      turn.set_timer(of, timer, turn.now() + slot_time_);
      return false;
    }
    const auto w = parameters(turn);
    current_.assign(w.begin(), w.end());
    std::ranges::copy(running_.front().began_at, w.begin());
    turn.compute(Gradient{});
    return true;
  }

  // Called when the timer has fired.
  void slot_passed() {
    if (std::exchange(is_waiting_, false)) ++slot_;
  }

  // Returns true if the learner's result is a step, false if it is the application of a gradient.
  bool is_step() const { return !is_applying_; }
  void stepped(const StepResult& result) { slot_time_ = result.elapsed; }
  // Called in on_computed(). Returns the lane whose step has ended; null while its gradient is
  // applied.
  std::optional<std::uint32_t> computed(Turn& turn) {
    if (count_ > 1 && !is_applying_) {
      std::ranges::copy(current_, parameters(turn).begin());
      current_ = {};
      is_applying_ = true;
      turn.compute(ApplyGradient{});
      return std::nullopt;
    }
    is_applying_ = false;
    ++slot_;
    LH_CHECK(!running_.empty());
    const std::uint32_t lane = running_.front().lane;
    running_.pop_front();
    return lane;
  }

  // Discards the running steps.
  void clear() { running_.clear(); }
  void state(Archive& ar) {
    ar(running_, started_, slot_, slot_time_, current_, is_applying_, is_waiting_);
  }

 private:
  struct Running {
    std::uint32_t lane = 0;
    std::uint64_t due = 0;             // slot in which the step can end
    std::vector<float> began_at = {};  // parameters at the start
    void state(Archive& ar) { ar(lane, due, began_at); }
  };
  const std::uint32_t count_;
  std::deque<Running> running_;
  std::uint64_t started_ = 0;   // steps started
  std::uint64_t slot_ = 0;      // next slot
  Time slot_time_{0};           // duration of the last used slot
  std::vector<float> current_;  // parameters, while a gradient is computed at others
  bool is_applying_ = false;
  bool is_waiting_ = false;  // waits for the timer
};

}  // namespace longhaul::sync::shadow
