#include "longhaul/overlay/plan_trial.h"

#include <algorithm>

namespace longhaul::overlay::forest {
namespace {

// bbr rests for 0.2 s every 10 s: one round may show a fifth more than the next.
constexpr std::uint32_t kRounds = 3;       // after which the least difference counts
constexpr std::uint32_t kMostUnknown = 8;  // rounds of which nobody can say
constexpr double kNoise = 1.02;            // of what the plan before took
constexpr double kClearlyWorse = 1.10;     // and is told by one round

// Of the last two rounds the quicker: what held one up says nothing of the plan.
double quicker(double last, double second_last) {
  return second_last > 0 ? std::min(last, second_last) : last;
}

}  // namespace

bool PlanTrial::enter(Round since) {
  if (since == since_) return false;
  const double took_s = quicker(last_s_, second_last_s_);
  bool better = false;
  if (std::erase_if(coming_, [&](Round start) { return start <= since; }) > 0) {
    better = running_ && took_s > 0 && (before_s_ == 0 || took_s < before_s_);
    if (!running_ || better) before_s_ = took_s;
    running_ = true;
  }
  since_ = since;
  rounds_ = unknown_ = 0;
  best_s_ = last_s_ = second_last_s_ = 0;
  return better;
}

PlanTrial::Verdict PlanTrial::on_round(double took_s) {
  if (took_s <= 0) {
    if (!running_ || !coming_.empty() || ++unknown_ < kMostUnknown) return Verdict::none;
    running_ = false;
    return Verdict::kept;
  }
  best_s_ = rounds_ == 0 ? took_s : std::min(best_s_, took_s);
  ++rounds_;
  second_last_s_ = last_s_;
  last_s_ = took_s;
  if (!running_ || !coming_.empty()) return Verdict::none;
  const Verdict verdict = judge();
  if (verdict != Verdict::none) running_ = false;
  return verdict;
}

PlanTrial::Verdict PlanTrial::judge() const {
  if (best_s_ * kNoise < before_s_ || before_s_ == 0) return Verdict::kept;
  if (best_s_ > kClearlyWorse * before_s_) return Verdict::worse;
  if (rounds_ < kRounds) return Verdict::none;
  return best_s_ > kNoise * before_s_ ? Verdict::worse : Verdict::kept;
}

bool PlanTrial::slower(double share) const {
  return second_last_s_ > 0 && quicker(last_s_, second_last_s_) > (1 + share) * best_s_;
}

}  // namespace longhaul::overlay::forest
