#pragma once
// Gives the steps of a learner over sockets the durations that they have in the simulator ([net]
// pace). The result of an early step is delivered at its due time; late steps are counted as
// overruns. The caller passes the time; this class waits for nothing.
//
// A step requested in the turn in which the previous one ended begins when that one should have
// ended. So lateness does not accumulate, and the next step makes up for work that takes no time in
// the simulator (applying a gradient).
#include <algorithm>
#include <functional>

#include "longhaul/base/archive.h"
#include "longhaul/core/types.h"
#include "longhaul/core/work.h"

namespace longhaul::net {

class Pace {
 public:
  // Duration of the node's step number `step` (from 0, over the whole run) that begins at `at`; a
  // pure function. Empty: no pacing.
  using Duration = std::function<Time(std::uint64_t step, Time at, const Work&)>;
  struct Figures {
    std::uint64_t steps = 0;     // with a duration
    std::uint64_t overruns = 0;  // of these, steps that ended late
  };
  explicit Pace(Duration duration = {}) : duration_(std::move(duration)) {}

  // `at_once`: requested in the turn in which the previous step ended.
  void begin(Time now, const Work& work, bool at_once) {
    const std::uint64_t number = number_++;
    started_ = now;
    if (!duration_) return;
    if (at_once) started_ = due_;
    const Time at = at_once ? ideal_ : now;
    length_ = duration_(number, at, work);
    ideal_ = at + length_;
  }

  // The learner has finished; returns the duration to report to the node.
  Time done(Time now) {
    due_ = duration_ ? std::max(now, ideal_) : now;
    if (length_ > Time{0}) {
      ++figures_.steps;
      figures_.overruns += now > ideal_;
    }
    return due_ - started_;
  }

  // When to deliver the finished step to the node.
  Time due() const { return due_; }
  const Figures& figures() const { return figures_; }
  // Not while the learner computes.
  void state(Archive& ar) { ar(number_, ideal_, due_, figures_.steps, figures_.overruns); }

 private:
  const Duration duration_;
  std::uint64_t number_ = 0;  // of the next step
  Time length_{0};            // that this one is to take
  Time started_{0};
  Time ideal_{0};  // when it should end
  Time due_{0};
  Figures figures_;
};

}  // namespace longhaul::net
