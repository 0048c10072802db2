#pragma once
// Whether a plan is worth what was expected of it: what its rounds take, beside those of the plan
// before. Rates are measured beside others that share a port, so a plan by them may be slower than
// the one that it replaces; only its rounds show it. docs/overlay/forest.md
//
// Owned by the planner's RatePlanner; a pure function of what it is told, in that order.
#include <cstdint>
#include <optional>

#include "longhaul/base/archive.h"
#include "longhaul/core/types.h"

namespace longhaul::overlay::forest {

class PlanTrial {
 public:
  enum class Verdict : std::uint8_t { none, kept, worse };

  // Another plan was proposed: the next that comes in force is on trial.
  void propose() { stage_ = Stage::proposed; }
  // It was not sent after all.
  void withdraw() { stage_ = Stage::none; }
  bool under_way() const { return stage_ != Stage::none; }
  // A round took so long by the plan in force since round `since`; 0 s: nobody can say; a
  // plan stays if that goes on. The verdict comes once, and ends the trial.
  Verdict on_round(Round since, double took_s);
  // The last two rounds took longer by that share than the quickest by the plan in force.
  bool slower(double share) const;
  void state(auto& ar) {
    ar(stage_, since_, rounds_, unknown_, best_s_, last_s_, second_last_s_, before_s_);
  }

 private:
  enum class Stage : std::uint8_t { none, proposed, running };
  Verdict judge();

  Stage stage_ = Stage::none;
  std::optional<Round> since_;
  std::uint32_t rounds_ = 0, unknown_ = 0;              // by the plan in force
  double best_s_ = 0, last_s_ = 0, second_last_s_ = 0;  // of those; 0: none
  double before_s_ = 0;                                 // of the plan before; 0: not known
};

}  // namespace longhaul::overlay::forest
