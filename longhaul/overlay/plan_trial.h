#pragma once
// Whether a plan is worth what was expected of it: what its rounds take, beside those of the plan
// before. Rates are measured beside others that share a port, so a plan by them may be slower than
// the one that it replaces; only its rounds show it. docs/overlay/forest-learned.md
//
// Owned by the planner's RatePlanner; a pure function of what it is told, in that order.
#include <cstdint>
#include <optional>
#include <vector>

#include "longhaul/base/archive.h"
#include "longhaul/core/types.h"

namespace longhaul::overlay::forest {

class PlanTrial {
 public:
  enum class Verdict : std::uint8_t { none, kept, worse };

  // Another plan comes in force in round `start`, and is on trial from then on. Several may be on
  // their way; the last of them is tried, against the quickest of those before it.
  void propose(Round start) { coming_.push_back(start); }
  bool under_way() const { return running_ || !coming_.empty(); }
  bool running() const { return running_; }
  // The rounds from here on go by the plan in force since then. True: the plan before it was
  // quicker than the one to go back to, and takes its place.
  bool enter(Round since);
  // A round took so long by the plan in force; 0 s: nobody can say, and if that goes on a plan
  // stays. The verdict comes once, and ends the trial.
  Verdict on_round(double took_s);
  // The last two rounds took longer by that share than the quickest by the plan in force.
  bool slower(double share) const;
  void state(auto& ar) {
    ar(coming_, running_, since_, rounds_, unknown_, best_s_, last_s_, second_last_s_, before_s_);
  }

 private:
  Verdict judge() const;

  std::vector<Round> coming_;  // when those that are proposed come in force; a few
  bool running_ = false;
  std::optional<Round> since_;
  std::uint32_t rounds_ = 0, unknown_ = 0;              // by the plan in force
  double best_s_ = 0, last_s_ = 0, second_last_s_ = 0;  // of those; 0: none
  double before_s_ = 0;                                 // of the plan before; 0: not known
};

}  // namespace longhaul::overlay::forest
