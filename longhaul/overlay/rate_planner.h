#pragma once
// PlanTrial decides whether to keep a plan, from the times of its rounds and of those of the plan
// before. Rates are measured while others share a port, so a plan by them may be slower than the
// one that it replaces; only its rounds show this. docs/overlay/forest-learned.md
//
// Owned by the planner's RatePlanner; a pure function of its inputs, in that order.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "longhaul/base/archive.h"
#include "longhaul/core/types.h"
#include "longhaul/flow/wan.h"
#include "longhaul/overlay/forest_messages.h"
#include "longhaul/overlay/sites.h"

namespace longhaul::overlay::forest {

class PlanTrial {
  // bbr rests for 0.2 s every 10 s: one round may take a fifth longer than the next.
  static constexpr std::uint32_t kRounds = 3;  // rounds after which the least difference counts
  static constexpr std::uint32_t kMostUnknown = 8;  // rounds without a known time
  static constexpr double kNoise = 1.02;            // share of the earlier plan's time
  static constexpr double kClearlyWorse = 1.10;     // for a verdict after one round

  // Returns the quicker of the last two rounds: a delay in one says nothing about the plan.
  static double quicker(double last, double second_last) {
    return second_last > 0 ? std::min(last, second_last) : last;
  }

 public:
  enum class Verdict : std::uint8_t { none, kept, worse };

  // Adds a plan that comes into force in round `start`, and is on trial from then on. Several can
  // be pending; the last is tried, against the quickest of those before it.
  void propose(Round start) { coming_.push_back(start); }
  bool under_way() const { return running_ || !coming_.empty(); }
  bool running() const { return running_; }
  // Called when later rounds use the plan in force since `since`. Returns true if the plan before
  // it was quicker than the plan to return to, and takes its place.
  bool enter(Round since) {
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

  // Counts a round of the plan in force. 0 s: the time is unknown; after kMostUnknown such rounds
  // the plan stays. The verdict comes once, and ends the trial.
  Verdict on_round(double took_s) {
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

  // Returns true if the last two rounds took longer by `share` than the quickest of the plan in
  // force.
  bool slower(double share) const {
    return second_last_s_ > 0 && quicker(last_s_, second_last_s_) > (1 + share) * best_s_;
  }

  void state(auto& ar) {
    ar(coming_, running_, since_, rounds_, unknown_, best_s_, last_s_, second_last_s_, before_s_);
  }

 private:
  Verdict judge() const {
    if (best_s_ * kNoise < before_s_ || before_s_ == 0) return Verdict::kept;
    if (best_s_ > kClearlyWorse * before_s_) return Verdict::worse;
    if (rounds_ < kRounds) return Verdict::none;
    return best_s_ > kNoise * before_s_ ? Verdict::worse : Verdict::kept;
  }

  std::vector<Round> coming_;  // when the proposed plans come into force; a few
  bool running_ = false;
  std::optional<Round> since_;
  std::uint32_t rounds_ = 0, unknown_ = 0;  // rounds and rounds without a time of the plan in force
  double best_s_ = 0, last_s_ = 0, second_last_s_ = 0;  // times of these rounds; 0: none
  double before_s_ = 0;                                 // time of the plan before; 0: not known
};

// The planner of a forest. From the measured rates of all nodes it plans other trees if these are
// quicker. Sometimes it adds a tree that tries a pair without a tree. A pure function of its
// inputs, in that order. Owned by a node's PlannedForest; only the planner's works.
// docs/overlay/forest-learned.md
struct RatePlannerConfig {
  double drift = 0.2;       // share by which a rate must have changed
  Round probe_rounds = 20;  // 0: never
};

class RatePlanner {
 public:
  using Reports = std::map<Rank, RateReport>;  // the newest report of each member
  RatePlanner(const RatePlannerConfig& config, std::shared_ptr<const flow::Wan> network)
      : config_(config), network_(std::move(network)) {}

  // Discards everything that was planned for another team.
  void new_team();
  struct Ended {
    Round round = 0;
    Round since = 0;                 // when its plan came into force
    const SitePlan* plan = nullptr;  // the plan of the round
  };
  // Returns the next plan, if there is one, after a round has ended. `site_of`: by rank. `now`: the
  // newest trees, in force or agreed on.
  std::optional<SitePlan> consider(const SiteGroups&, const std::vector<std::uint32_t>& site_of,
                                   const Reports&, const SitePlan& now, const Partition&, Ended);
  // Called when the last plan from consider() was sent, and comes into force in round `start`; or
  // if it cannot be sent, and `now` stays.
  void sent(Round start);
  void withdraw(const SitePlan& now);
  void state(Archive& ar) {
    ar(basis_, base_, in_force_, before_, trial_, to_try_, changed_, tried_, taken_back_,
       paused_until_, pause_);
  }

 private:
  using Rates = std::map<flow::SitePair, double>;
  using Ages = std::map<flow::SitePair, std::uint32_t>;
  bool drifted(const Rates&) const;
  void keep();
  std::optional<SitePlan> go_back(Round);
  std::optional<SitePlan> probe(const Ages&, std::uint32_t sites, Round round);

  const RatePlannerConfig config_;
  // Source of delays, and of rates that are not measured; null: nothing is known.
  const std::shared_ptr<const flow::Wan> network_;
  Rates basis_;    // rates between sites of the last planning
  SitePlan base_;  // the newest plan without the tree that tries a pair
  SitePlan in_force_;
  SitePlan before_;  // the plan to return to while base_ is on trial
  PlanTrial trial_;
  bool to_try_ = false;                  // the last plan from consider() needs a trial
  Round changed_ = 0;                    // round of the last decision
  std::optional<flow::SitePair> tried_;  // the pair that the plan in force tries
  bool taken_back_ = false;              // base_ was in force before, and is on trial again
  // After a worse plan no plan is made for a while, because the same rates would mislead again.
  Round paused_until_ = 0, pause_ = kPause;
  static constexpr Round kPause = 20;
};

// Returns the assumed network between the sites before any measurement: equal links, with the
// delays of `network`; null: without delays.
flow::Wan blank_network(const SiteGroups&, const flow::Wan* network);
// Returns the busiest link's time for the trees, divided by its time for a vector alone.
double busiest(const std::vector<SiteTree>&, const flow::Wan& between);
// Returns the plan with one more tree of a small share, along which `from` sends its part straight
// to `to`.
SitePlan with_probe(SitePlan, std::uint32_t from, std::uint32_t to);

}  // namespace longhaul::overlay::forest
