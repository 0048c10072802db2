#include "longhaul/overlay/replanner.h"

#include <algorithm>

#include "longhaul/flow/capacities.h"

namespace longhaul::overlay::forest {

Replanner::Replanner(const ReplannerConfig& config, std::shared_ptr<const flow::Wan> network,
                     std::vector<std::uint32_t> site_of)
    : learns_(config.learns),
      network_(std::move(network)),
      site_of_(std::move(site_of)),
      rates_(config.ema, config.planner.drift),
      planner_(config.planner, network_) {}

void Replanner::new_team(const GroupMembers& team) {
  team_ = team;
  agreement_.new_team(team.epoch, team.self, team.members, group_by_site(team, site_of_).size());
  planner_.new_team();
  given_at_.clear();
  reports_.clear();
  considered_.reset();
}

// What the job says of rates is the plan to begin with; what is measured replaces it. Where it says
// nothing, how long a vector takes is not known either, so all parts go before all means.
SitePlan Replanner::plan_alone(const SiteGroups& groups, const Partition& grid) const {
  if (!learns_) return plan_trees(groups, network_.get(), grid);
  if (network_) {
    const flow::Wan configured = flow::among(*network_, groups.sites);
    if (flow::Capacities(configured).largest() > 0) return plan_between(configured, grid, false);
  }
  return {plan_between(blank_network(groups, network_.get()), grid, false).trees};
}

Forest Replanner::first_forest(const GroupMembers& team, const Partition& grid) const {
  const SiteGroups groups = group_by_site(team, site_of_);
  const SitePlan* const agreed = agreement_.first();
  const bool ours = team.epoch == team_.epoch && team.members == team_.members;
  if (agreed && ours && !agreed->trees.empty()) return over_sites(*agreed, groups, grid.pieces());
  return over_sites(plan_alone(groups, grid), groups, grid.pieces());
}

void Replanner::on_ready(const Partition& parameters, TopologyOutput& output) {
  if (!agreement_.lacks_first()) return;
  tell_all(agreement_.propose_first(plan_alone(group_by_site(team_, site_of_), parameters)),
           output);
}

Forest Replanner::forest_since(Round since, const Partition& grid) const {
  return over_sites(agreement_.plan(since), group_by_site(team_, site_of_), grid.pieces());
}

void Replanner::on_sent(Rank to, std::uint64_t bytes, Time waited, Time now) {
  if (learns_ && far(to)) rates_.on_sent(to, bytes, waited, now);
}

void Replanner::on_received(Rank from, std::uint64_t bytes, Time now) {
  if (learns_ && far(from)) rates_.on_received(bytes, now);
}

void Replanner::on_contributed(Round round, Time now) {
  agreement_.on_contributed(round);
  if (learns_) given_at_[round] = now;
}

RateReport Replanner::report(Round round, Time now) {
  RateReport report{round, {}, rates_.up(), rates_.down()};
  if (const auto given = given_at_.find(round); given != given_at_.end())
    report.took = seconds(now - given->second);
  given_at_.erase(given_at_.begin(), given_at_.upper_bound(round));
  for (const auto& [to, known] : rates_.pairs())
    if (team_.index_of(to)) report.pairs.push_back({to, known.rate, known.age});
  return report;
}

void Replanner::on_mean_ready(Round round, const Partition& grid, Time now,
                              TopologyOutput& output) {
  if (!learns_) return agreement_.on_mean_ready(round);
  rates_.close(std::uint32_t(std::count_if(team_.members.begin(), team_.members.end(),
                                           [this](Rank rank) { return !far(rank); })));
  agreement_.on_mean_ready(round);
  grid_ = grid;
  if (!agreement_.plans()) return output.tell(agreement_.planner(), write(report(round, now)));
  reports_[team_.self] = report(round, now);
  consider(output);
}

// When all have told of a round: by the newest that each has told.
void Replanner::consider(TopologyOutput& output) {
  if (reports_.size() < team_.members.size() || !agreement_.may_propose() || !grid_) return;
  Round oldest = reports_.begin()->second.round;
  for (const auto& [rank, report] : reports_) oldest = std::min(oldest, report.round);
  if (considered_ && oldest <= *considered_) return;
  considered_ = oldest;
  const SiteGroups groups = group_by_site(team_, site_of_);
  const SitePlan& newest = *agreement_.newest();  // or there is none to propose
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

Status Replanner::take(Rank from, const TopologyMessage& notice, TopologyOutput& output) {
  return read(notice, [&](const auto& one) -> Status { return take(from, one, output); });
}

Status Replanner::take(Rank from, const RateReport& report, TopologyOutput& output) {
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

Status Replanner::take(Rank from, const NewPlan& plan, TopologyOutput& output) {
  const auto ack = agreement_.take(from, plan);
  if (!ack) return ack.error();
  tell_all(*ack, output);
  if (plan.start > 0) output.record("plan", plan.start, plan.version);
  return Ok{};
}

Status Replanner::take(Rank from, const PlanAck& ack, TopologyOutput&) {
  return agreement_.take(from, ack);
}

template <class M>
void Replanner::tell_all(const M& message, TopologyOutput& output) const {
  const TopologyMessage notice = write(message);
  for (const Rank to : team_.others()) output.tell(to, notice);
}

void Replanner::state(Archive& ar) {
  ar(team_, rates_, agreement_, given_at_, planner_, reports_, considered_);
  std::array<std::uint64_t, 2> grid = {grid_ ? grid_->length() : 0,
                                       grid_ ? grid_->range(0).length : 0};
  ar(grid);
  if (ar.loading())
    grid_ =
        grid[0] > 0 && grid[1] > 0 ? std::optional(Partition(grid[0], 1, grid[1])) : std::nullopt;
}

}  // namespace longhaul::overlay::forest
