#pragma once
// Whether a plan is worth what was expected of it: what its rounds take, beside those of the plan
// before. Rates are measured beside others that share a port, so a plan by them may be slower than
// the one that it replaces; only its rounds show it. docs/overlay/forest-learned.md
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
  // bbr rests for 0.2 s every 10 s: one round may show a fifth more than the next.
  static constexpr std::uint32_t kRounds = 3;       // after which the least difference counts
  static constexpr std::uint32_t kMostUnknown = 8;  // rounds of which nobody can say
  static constexpr double kNoise = 1.02;            // of what the plan before took
  static constexpr double kClearlyWorse = 1.10;     // and is told by one round

  // The quicker of the last two rounds: what held one up says nothing about the plan.
  static double quicker(double last, double second_last) {
    return second_last > 0 ? std::min(last, second_last) : last;
  }

 public:
  enum class Verdict : std::uint8_t { none, kept, worse };

  // Another plan comes in force in round `start`, and is on trial from then on. Several may be on
  // their way; the last of them is tried, against the quickest of those before it.
  void propose(Round start) { coming_.push_back(start); }
  bool under_way() const { return running_ || !coming_.empty(); }
  bool running() const { return running_; }
  // The rounds from here on go by the plan in force since then. True: the plan before it was
  // quicker than the one to go back to, and takes its place.
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

  // A round took so long by the plan in force; 0 s: nobody can say, and if that goes on a plan
  // stays. The verdict comes once, and ends the trial.
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

  // The last two rounds took longer by that share than the quickest by the plan in force.
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

  std::vector<Round> coming_;  // when those that are proposed come in force; a few
  bool running_ = false;
  std::optional<Round> since_;
  std::uint32_t rounds_ = 0, unknown_ = 0;              // by the plan in force
  double best_s_ = 0, last_s_ = 0, second_last_s_ = 0;  // of those; 0: none
  double before_s_ = 0;                                 // of the plan before; 0: not known
};

// What the planner of a forest makes of the rates that all nodes have measured: other trees, if by
// these rates they are worth it, or now and then a tree that tries a pair which no tree uses. A
// pure function of its inputs, in that order. Owned by a node's Replanner; only the planner's
// works. docs/overlay/forest-learned.md
struct RatePlannerConfig {
  double drift = 0.2;       // share by which a rate has to have changed
  Round probe_rounds = 20;  // 0: never
};

class RatePlanner {
 public:
  using Reports = std::map<Rank, RateReport>;  // of every member the newest
  RatePlanner(const RatePlannerConfig& config, std::shared_ptr<const flow::Wan> network)
      : config_(config), network_(std::move(network)) {}

  // What was planned for another team is nothing to this one.
  void new_team();
  struct Ended {
    Round round = 0;
    Round since = 0;                 // when the plan that it went by came in force
    const SitePlan* plan = nullptr;  // that plan
  };
  // `site_of`: by rank. `now`: the newest trees, in force or agreed on. The round has just ended.
  std::optional<SitePlan> consider(const SiteGroups&, const std::vector<std::uint32_t>& site_of,
                                   const Reports&, const SitePlan& now, const Partition&, Ended);
  // What consider() gave last was sent, and comes in force in round `start`; or it cannot be sent,
  // and `now` stays.
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
  // Its delays are believed, and its rates where nothing is measured; null: nothing is.
  const std::shared_ptr<const flow::Wan> network_;
  Rates basis_;    // between sites, that were looked at last
  SitePlan base_;  // the plan in force without what tries a pair
  SitePlan in_force_;
  SitePlan before_;  // to go back to, while base_ is on trial
  PlanTrial trial_;
  bool to_try_ = false;                  // what consider() gave last is to be tried
  Round changed_ = 0;                    // when something was last decided
  std::optional<flow::SitePair> tried_;  // the pair that the plan in force tries
  bool taken_back_ = false;              // base_ was before, and is on trial again
  // Rates that misled once do so again: after a plan that was worse none is made for a while.
  Round paused_until_ = 0, pause_ = kPause;
  static constexpr Round kPause = 20;
};

// What is believed of the network between the sites before anything is measured: all links alike,
// delays as `network` has them, null: none.
flow::Wan blank_network(const SiteGroups&, const flow::Wan* network);
// How long the busiest link takes for the trees, over what it takes for a vector alone.
double busiest(const std::vector<SiteTree>&, const flow::Wan& between);
// The plan and one tree more, of a small share, along which `from` sends its part straight to `to`.
SitePlan with_probe(SitePlan, std::uint32_t from, std::uint32_t to);

}  // namespace longhaul::overlay::forest
