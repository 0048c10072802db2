#pragma once
// The end of a run with a server. A round is the number of commits in Setup. At the end of a round,
// the server checks rounds, time and samples. Every report_every rounds its model is scored, off
// the clock. The run ends as soon as a score reaches the target. The server does not wait for a
// score ([report] lag is for rules that do). It keeps the models of at most lag + 1 open scores,
// and omits further reports.
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
  // Called when the store has a new version.
  void committed(const ParameterStore& store, Turn& turn) {
    if (over() || store.version() % commits_ != 0) return;
    const Round done = rounds(store.version());
    if (done % config_.report_every == 0 && open_.size() <= config_.lag) {
      open_.insert(done - 1);
      // Never null, which would report the model of a learner that may be computing.
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

  // Called after a takeover: the scores of earlier reports reach no node.
  void forget_reports() { open_.clear(); }
  bool over() const { return reason_ != StopRule::Reason::none; }
  StopRule::Reason reason() const { return reason_; }
  // Returns the number of whole rounds in `version` commits.
  Round rounds(std::uint64_t version) const { return version / commits_; }
  void state(Archive& ar) { ar(samples_, reason_, open_); }

 private:
  const StopConfig config_;
  const std::uint64_t commits_;  // commits per round
  std::uint64_t samples_ = 0;
  StopRule::Reason reason_ = StopRule::Reason::none;
  std::set<Round> open_;  // reported and not scored
};

// Clocks counts the completed clocks of each live worker, and decides at a staleness bound s which
// workers can continue. A worker that has completed c clocks can begin the next if all workers have
// completed c - s. So the model that it reads contains all updates of clocks up to c - s - 1.
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
  // Adds a returned worker as one of the slowest.
  void join(Rank rank) {
    const std::uint64_t slowest = minimum();
    completed_[rank] = slowest;
  }
  std::uint64_t of(Rank rank) const {
    const auto found = completed_.find(rank);
    return found == completed_.end() ? 0 : found->second;
  }
  // Returns the clocks of the slowest live worker; 0 if there is none.
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

// Returns true if a worker that has completed `clock` can continue when all have completed
// `minimum`.
inline bool within_bound(std::uint64_t clock, std::uint64_t minimum, std::uint64_t staleness) {
  return clock <= minimum + staleness;
}

}  // namespace longhaul::sync::server
