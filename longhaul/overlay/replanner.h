#pragma once
// A Replanner keeps a node of a forest on the trees that all other nodes use. All nodes agree on
// the plans of the planner (plan_agreement.h), and the Replanner selects the trees of each round.
// With learned rates it measures those of its own links (pair_rates.h). It reports them once a
// round to the planner, which makes other plans from them (rate_planner.h).
//
// One for each node, owned by its PlannedForest, for group 0. Rounds of the parameters, range 0,
// use the newest plan. Other exchanges are small and use the first plan.
#include <algorithm>
#include <memory>

#include "longhaul/flow/capacities.h"
#include "longhaul/overlay/attempt.h"
#include "longhaul/overlay/pair_rates.h"
#include "longhaul/overlay/plan_agreement.h"
#include "longhaul/overlay/rate_planner.h"

namespace longhaul::overlay::forest {

struct ReplannerConfig {
  bool learns = false;  // measures rates of its traffic
  double ema = 0.5;
  RatePlannerConfig planner;
};

class Replanner {
 public:
  // `network`: the network in the job file, null if there is none; its delays are used always, its
  // rates until they are measured. `site_of`: by rank.
  Replanner(const ReplannerConfig& config, std::shared_ptr<const flow::Wan> network,
            std::vector<std::uint32_t> site_of)
      : learns_(config.learns),
        network_(std::move(network)),
        site_of_(std::move(site_of)),
        rates_(config.ema, config.planner.drift),
        planner_(config.planner, network_) {}

  // See Topology::on_team(), for rounds of the parameters.
  void new_team(const GroupMembers& team) {
    team_ = team;
    agreement_.new_team(team.epoch, team.self, team.members, group_by_site(team, site_of_).size());
    planner_.new_team();
    given_at_.clear();
    reports_.clear();
    considered_.reset();
  }

  // Returns the team's first trees: as agreed, else as this node plans them.
  Forest first_forest(const GroupMembers& team, const Partition& grid) const {
    const SiteGroups groups = group_by_site(team, site_of_);
    const SitePlan* const agreed = agreement_.first();
    const bool ours = team.epoch == team_.epoch && team.members == team_.members;
    if (agreed && ours && !agreed->trees.empty()) return over_sites(*agreed, groups, grid.pieces());
    return over_sites(plan_alone(groups, grid), groups, grid.pieces());
  }

  Round since(Round round) const { return agreement_.since(round); }
  Forest forest_since(Round since, const Partition& grid) const {
    return over_sites(agreement_.plan(since), group_by_site(team_, site_of_), grid.pieces());
  }

  std::optional<std::string> hold(Round round) const { return agreement_.hold(round); }
  std::optional<std::string> hold_of_first() const { return agreement_.hold_of_first(); }
  void on_ready(const Partition& parameters, TopologyOutput& output) {
    if (!agreement_.lacks_first()) return;
    tell_all(agreement_.propose_first(plan_alone(group_by_site(team_, site_of_), parameters)),
             output);
  }

  void on_contributed(Round round, Time now) {
    agreement_.on_contributed(round);
    if (learns_) given_at_[round] = now;
  }

  void on_mean_ready(Round round, const Partition& grid, Time now, TopologyOutput& output) {
    if (!learns_) return agreement_.on_mean_ready(round);
    rates_.close(std::uint32_t(
        std::ranges::count_if(team_.members, [this](Rank rank) { return !far(rank); })));
    agreement_.on_mean_ready(round);
    grid_ = grid;
    if (!agreement_.plans()) return output.tell(agreement_.planner(), write(report(round, now)));
    reports_[team_.self] = report(round, now);
    consider(output);
  }

  void on_sent(Rank to, std::uint64_t bytes, Time waited, Time now) {
    if (learns_ && far(to)) rates_.on_sent(to, bytes, waited, now);
  }

  void on_received(Rank from, std::uint64_t bytes, Time now) {
    if (learns_ && far(from)) rates_.on_received(bytes, now);
  }

  Status take(Rank from, const TopologyMessage& notice, TopologyOutput& output) {
    return read(notice, [&](const auto& one) -> Status { return take(from, one, output); });
  }

  void state(Archive& ar) {
    ar(team_, rates_, agreement_, given_at_, planner_, reports_, considered_);
    std::array<std::uint64_t, 2> grid = {grid_ ? grid_->length() : 0,
                                         grid_ ? grid_->range(0).length : 0};
    ar(grid);
    if (ar.loading())
      grid_ =
          grid[0] > 0 && grid[1] > 0 ? std::optional(Partition(grid[0], 1, grid[1])) : std::nullopt;
  }

  const PlanAgreement& agreement() const { return agreement_; }

 private:
  // Returns this node's own plan, by the rates of the job, which measured rates replace later. If
  // the job has none, the time for a vector is unknown too, so all parts go before all means.
  SitePlan plan_alone(const SiteGroups& groups, const Partition& grid) const {
    if (!learns_) return plan_trees(groups, network_.get(), grid);
    if (network_) {
      const flow::Wan configured = flow::among(*network_, groups.sites);
      if (flow::Capacities(configured).largest() > 0) return plan_between(configured, grid, false);
    }
    return {plan_between(blank_network(groups, network_.get()), grid, false).trees};
  }

  Status take(Rank from, const RateReport& report, TopologyOutput& output) {
    const auto refuse = [&](const std::string& why) {
      return malformed("rates of rank " + std::to_string(from) + ": " + why);
    };
    if (!learns_ || !agreement_.plans()) return refuse("this node does not plan by it");
    const auto known = reports_.find(from);
    if (known != reports_.end() && report.round <= known->second.round)
      return refuse("of round " + std::to_string(report.round) + " again");
    for (std::size_t i = 0; i < report.pairs.size(); ++i) {
      const Rank to = report.pairs[i].to;
      if (to == from || !team_.index_of(to) || (i > 0 && to <= report.pairs[i - 1].to))
        return refuse("of a pair that cannot be");
    }
    reports_[from] = report;
    consider(output);
    return Ok{};
  }

  Status take(Rank from, const NewPlan& plan, TopologyOutput& output) {
    LH_LET(ack, agreement_.take(from, plan));
    tell_all(ack, output);
    if (plan.start > 0) output.record("plan", plan.start, plan.version);
    return Ok{};
  }

  Status take(Rank from, const PlanAck& ack, TopologyOutput&) { return agreement_.take(from, ack); }

  RateReport report(Round round, Time now) {
    RateReport report{round, {}, rates_.up(), rates_.down()};
    if (const auto given = given_at_.find(round); given != given_at_.end())
      report.took = seconds(now - given->second);
    given_at_.erase(given_at_.begin(), given_at_.upper_bound(round));
    for (const auto& [to, known] : rates_.pairs())
      if (team_.index_of(to)) report.pairs.push_back({to, known.rate, known.age});
    return report;
  }

  bool far(Rank rank) const { return site_of_[rank] != site_of_[team_.self]; }
  // Tries another plan when all members have reported a round, from the newest report of each.
  void consider(TopologyOutput& output) {
    if (reports_.size() < team_.members.size() || !agreement_.may_propose() || !grid_) return;
    Round oldest = reports_.begin()->second.round;
    for (const auto& [rank, report] : reports_) oldest = std::min(oldest, report.round);
    if (considered_ && oldest <= *considered_) return;
    considered_ = oldest;
    const SiteGroups groups = group_by_site(team_, site_of_);
    const SitePlan& newest = *agreement_.newest();  // never null when may_propose() holds
    const SitePlan now = newest.trees.empty() ? plan_alone(groups, *grid_) : newest;
    const Round since = agreement_.since(oldest);
    const SitePlan* const in_force = since > 0 ? &agreement_.plan(since) : agreement_.first();
    const auto plan = planner_.consider(groups, site_of_, reports_, now, *grid_,
                                        {oldest, since, in_force->trees.empty() ? &now : in_force});
    if (!plan) return;
    const auto proposal = agreement_.propose(*plan);
    if (!proposal) return planner_.withdraw(now);
    planner_.sent(proposal->start);
    tell_all(*proposal, output);
    output.record("plan", proposal->start, proposal->version);
  }

  void tell_all(const auto& message, TopologyOutput& output) const {
    const TopologyMessage notice = write(message);
    for (const Rank to : team_.others()) output.tell(to, notice);
  }

  const bool learns_;
  const std::shared_ptr<const flow::Wan> network_;
  const std::vector<std::uint32_t> site_of_;
  GroupMembers team_;
  PairRates rates_;
  PlanAgreement agreement_;
  std::map<Round, Time> given_at_;  // contributions to rounds that have not ended; learned rates
  // Only used at the planner.
  RatePlanner planner_;
  std::map<Rank, RateReport> reports_;  // the newest report of each member
  std::optional<Partition> grid_;       // partition of the parameters
  std::optional<Round> considered_;     // the last round whose reports were all considered
};

}  // namespace longhaul::overlay::forest
