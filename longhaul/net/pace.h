#pragma once
// How long the steps of a learner are to take in a run that is to be compared with a simulated one
// ([net] pace): as long as there. What is done early the node is told late; what is done late is
// counted. A machine: it is told what time it is, and waits for nothing itself.
//
// A step that is asked for in the turn in which another one ended begins when that one should have
// ended. So lateness does not add up, and work that takes no time in the simulator (applying a
// gradient) is made up for by the step behind it.
#include <functional>

#include "longhaul/base/archive.h"
#include "longhaul/core/types.h"
#include "longhaul/core/work.h"

namespace longhaul::net {

class Pace {
 public:
  // Of the node's step number `step`, from 0, counted over the whole run, which begins at `at`; a
  // pure function. Empty: steps take what they take.
  using Duration = std::function<Time(std::uint64_t step, Time at, const Work&)>;
  struct Figures {
    std::uint64_t steps = 0;     // that were to take some time
    std::uint64_t overruns = 0;  // of them: done later than they should have been
  };
  explicit Pace(Duration duration = {}) : duration_(std::move(duration)) {}

  // `at_once`: in the turn in which the step before ended.
  void begin(Time now, const Work&, bool at_once);
  // The learner has done it. How long it takes, for the node.
  Time done(Time now);
  // When the node is to be told of the step that is done.
  Time due() const { return due_; }
  const Figures& figures() const { return figures_; }
  // Not while the learner is at work.
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
