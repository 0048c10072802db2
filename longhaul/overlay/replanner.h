#pragma once
// What a node of a forest does to go by measured rates: it learns those of its own links
// (pair_rates.h), tells them the planner once a round, agrees with all on the plans that the
// planner makes of them (rate_planner.h, plan_agreement.h), and says which trees go for which
// round.
//
// One for each node, owned by its PlannedForest. It looks after the rounds of the parameters, group
// 0 and range 0; what else is exchanged is little and goes by the team's first plan.
#include <memory>

#include "longhaul/overlay/attempt.h"
#include "longhaul/overlay/pair_rates.h"
#include "longhaul/overlay/plan_agreement.h"
#include "longhaul/overlay/rate_planner.h"

namespace longhaul::overlay::forest {

struct ReplannerConfig {
  double ema = 0.5;
  RatePlannerConfig planner;
};

class Replanner {
 public:
  // `network`: what the job says of it, null for nothing; its delays are believed, its rates until
  // they are measured. `site_of`: by rank.
  Replanner(const ReplannerConfig&, std::shared_ptr<const flow::Wan> network,
            std::vector<std::uint32_t> site_of);

  // Of Topology, for those rounds.
  void new_team(const GroupMembers&);
  SitePlan first_plan(const SiteGroups&, const Partition&) const;
  Round since(Round round) const { return agreement_.since(round); }
  Forest forest_since(Round since, const Partition&) const;
  std::optional<std::string> hold(Round round) const { return agreement_.hold(round); }
  void on_contributed(Round round) { agreement_.on_contributed(round); }
  void on_mean_ready(Round, const Partition&, TopologyOutput&);
  void on_sent(Rank to, std::uint64_t bytes, Time waited, Time now);
  void on_received(Rank from, std::uint64_t bytes, Time now);
  Status take(Rank from, const TopologyMessage&, TopologyOutput&);
  void state(Archive&);

  const PlanAgreement& agreement() const { return agreement_; }

 private:
  Status take(Rank from, const RateReport&, TopologyOutput&);
  Status take(Rank from, const NewPlan&, TopologyOutput&);
  Status take(Rank from, const PlanAck&, TopologyOutput&);
  RateReport report(Round) const;
  bool far(Rank rank) const { return site_of_[rank] != site_of_[team_.self]; }
  void consider(TopologyOutput&);
  template <class M>
  void tell_all(const M&, TopologyOutput&) const;

  const std::shared_ptr<const flow::Wan> network_;
  const std::vector<std::uint32_t> site_of_;
  GroupMembers team_;
  PairRates rates_;
  PlanAgreement agreement_;
  // At the planner.
  RatePlanner planner_;
  std::map<Rank, RateReport> reports_;  // of every member the newest
  std::optional<Partition> grid_;       // of the parameters
  std::optional<Round> considered_;     // the last round of which all reports were looked at
};

}  // namespace longhaul::overlay::forest
