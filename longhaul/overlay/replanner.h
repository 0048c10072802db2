#pragma once
// What a node of a forest does to go by the trees that all others go by: it agrees with all on the
// plans that the planner makes (plan_agreement.h), and says which trees go for which round. With
// learned rates it learns those of its own links (pair_rates.h) and tells them the planner once a
// round, which makes other plans of them (rate_planner.h).
//
// One for each node, owned by its PlannedForest. It looks after group 0: rounds of the parameters,
// range 0, go by the newest plan, what else is exchanged is little and goes by the first.
#include <memory>

#include "longhaul/overlay/attempt.h"
#include "longhaul/overlay/pair_rates.h"
#include "longhaul/overlay/plan_agreement.h"
#include "longhaul/overlay/rate_planner.h"

namespace longhaul::overlay::forest {

struct ReplannerConfig {
  bool learns = false;  // rates, from its traffic
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
  // The team's first trees: as agreed, else as this node plans them.
  Forest first_forest(const GroupMembers&, const Partition&) const;
  Round since(Round round) const { return agreement_.since(round); }
  Forest forest_since(Round since, const Partition&) const;
  std::optional<std::string> hold(Round round) const { return agreement_.hold(round); }
  std::optional<std::string> hold_of_first() const { return agreement_.hold_of_first(); }
  void on_ready(const Partition& parameters, TopologyOutput&);
  void on_contributed(Round, Time now);
  void on_mean_ready(Round, const Partition&, Time now, TopologyOutput&);
  void on_sent(Rank to, std::uint64_t bytes, Time waited, Time now);
  void on_received(Rank from, std::uint64_t bytes, Time now);
  Status take(Rank from, const TopologyMessage&, TopologyOutput&);
  void state(Archive&);

  const PlanAgreement& agreement() const { return agreement_; }

 private:
  SitePlan plan_alone(const SiteGroups&, const Partition&) const;
  Status take(Rank from, const RateReport&, TopologyOutput&);
  Status take(Rank from, const NewPlan&, TopologyOutput&);
  Status take(Rank from, const PlanAck&, TopologyOutput&);
  RateReport report(Round, Time now);
  bool far(Rank rank) const { return site_of_[rank] != site_of_[team_.self]; }
  void consider(TopologyOutput&);
  template <class M>
  void tell_all(const M&, TopologyOutput&) const;

  const bool learns_;
  const std::shared_ptr<const flow::Wan> network_;
  const std::vector<std::uint32_t> site_of_;
  GroupMembers team_;
  PairRates rates_;
  PlanAgreement agreement_;
  std::map<Round, Time> given_at_;  // its part, of rounds that are not over; with learned rates
  // At the planner.
  RatePlanner planner_;
  std::map<Rank, RateReport> reports_;  // of every member the newest
  std::optional<Partition> grid_;       // of the parameters
  std::optional<Round> considered_;     // the last round of which all reports were looked at
};

}  // namespace longhaul::overlay::forest
