#pragma once
// When a run with a server ends. A round is as many commits as the strategy says (Setup). At
// the end of a round the server looks at rounds, time and samples; every report_every rounds it has
// its model scored, off the clock, and ends the run as soon as it hears that the target is reached.
// It does not wait for a score ([report] lag is of rules that do): of several that are open it
// keeps at most lag + 1 models, and leaves a report out rather than keep more.
#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "longhaul/core/stop_rule.h"
#include "longhaul/core/types.h"
#include "longhaul/sync/server/parameter_store.h"

namespace longhaul::sync::server {

class EndRule {
 public:
  EndRule(const StopConfig& config, std::uint64_t commits) : config_(config), commits_(commits) {
    LH_CHECK(commits > 0);
  }
  void used(std::uint64_t samples) { samples_ += samples; }
  // The store has one version more.
  void committed(const ParameterStore& store, Turn& turn) {
    if (over() || store.version() % commits_ != 0) return;
    const Round done = rounds(store.version());
    if (done % config_.report_every == 0 && open_.size() <= config_.lag) {
      open_.insert(done - 1);
      // Never null: that would be the model of a learner which may be at work.
      const bool real = config_.snapshots;
      turn.report(done - 1, real ? store.copy() : std::make_shared<const std::vector<float>>());
    }
    using Reason = StopRule::Reason;
    if (done >= config_.max_rounds) {
      reason_ = Reason::max_rounds;
    } else if (config_.max_hours && seconds(turn.now()) >= *config_.max_hours * 3600) {
      reason_ = Reason::max_hours;
    } else if (config_.max_samples > 0 && samples_ >= config_.max_samples) {
      reason_ = Reason::max_samples;
    }
  }

  void scored(Round round, const Evaluation& evaluation) {
    if (open_.erase(round) == 0 || over()) return;
    if (config_.reached(evaluation)) reason_ = StopRule::Reason::target;
  }

  // Another node has taken over: nobody hears the scores of what was reported before.
  void forget_reports() { open_.clear(); }
  bool over() const { return reason_ != StopRule::Reason::none; }
  StopRule::Reason reason() const { return reason_; }
  // Whole rounds that so many commits are.
  Round rounds(std::uint64_t version) const { return version / commits_; }
  void state(Archive& ar) { ar(samples_, reason_, open_); }

 private:
  const StopConfig config_;
  const std::uint64_t commits_;  // a round
  std::uint64_t samples_ = 0;
  StopRule::Reason reason_ = StopRule::Reason::none;
  std::set<Round> open_;  // reported and not scored
};

// Clocks counts what each live worker has completed, and says who may go on at a staleness bound s:
// a worker that has completed c clocks may begin the next if all have completed c - s, so that all
// updates of clocks up to c - s - 1 are in what it reads.
//   Ho et al., "More effective distributed ML via a stale synchronous parallel parameter server",
//   NIPS 2013, section 3.
class Clocks {
 public:
  explicit Clocks(const std::vector<Rank>& workers) {
    for (Rank rank : workers) completed_[rank] = 0;
  }
  void complete(Rank rank) {
    if (auto found = completed_.find(rank); found != completed_.end()) ++found->second;
  }
  void lose(Rank rank) { completed_.erase(rank); }
  // It returns, as one of the slowest.
  void join(Rank rank) {
    const std::uint64_t slowest = minimum();
    completed_[rank] = slowest;
  }
  std::uint64_t of(Rank rank) const {
    const auto found = completed_.find(rank);
    return found == completed_.end() ? 0 : found->second;
  }
  // Of the slowest live worker; 0 if none is left.
  std::uint64_t minimum() const {
    const auto slowest = std::ranges::min_element(
        completed_, [](const auto& a, const auto& b) { return a.second < b.second; });
    return slowest == completed_.end() ? 0 : slowest->second;
  }
  std::vector<Rank> slowest() const {
    std::vector<Rank> ranks;
    for (const auto& [rank, clock] : completed_)
      if (clock == minimum()) ranks.push_back(rank);
    return ranks;
  }
  void state(auto& ar) { ar(completed_); }

 private:
  std::map<Rank, std::uint64_t> completed_;
};

// May a worker that has completed `clock` go on, knowing that all have completed `minimum`?
inline bool within_bound(std::uint64_t clock, std::uint64_t minimum, std::uint64_t staleness) {
  return clock <= minimum + staleness;
}

}  // namespace longhaul::sync::server
