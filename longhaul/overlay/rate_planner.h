#pragma once
// What the planner of a forest makes of the rates that all nodes have measured: other trees, if by
// these rates they are worth it, or now and then a tree that tries a pair which no tree uses. A
// pure function of its inputs, in that order. Owned by a node's Replanner; only the planner's
// works. docs/overlay/forest-learned.md
#include <memory>
#include <optional>

#include "longhaul/flow/wan.h"
#include "longhaul/overlay/forest_messages.h"
#include "longhaul/overlay/plan_trial.h"
#include "longhaul/overlay/sites.h"

namespace longhaul::overlay::forest {

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
