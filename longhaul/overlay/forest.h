#pragma once
// Simultaneous trees, planned to use all links of the network. docs/overlay/forest.md
//
// All nodes agree on the plans of the planner (plan_agreement.h), and each selects the trees of a
// round. With learned rates it measures those of its own links (pair_rates.h), and reports them
// once a round to the planner, which makes other plans from them (rate_planner.h).
//
// Only exchanges of all workers (group 0) use agreed plans. Rounds of the parameters, range 0, use
// the newest; others are small, use the first, and wait for it alone.
#include <algorithm>
#include <memory>

#include "longhaul/core/registry.h"
#include "longhaul/flow/capacities.h"
#include "longhaul/overlay/belief.h"
#include "longhaul/overlay/pair_rates.h"
#include "longhaul/overlay/plan_agreement.h"
#include "longhaul/overlay/rate_planner.h"
#include "longhaul/overlay/sites.h"
#include "longhaul/overlay/topology.h"

namespace longhaul::overlay {

class PlannedForest final : public Topology {
 public:
  struct Config {
    std::string phases = "streamed";
    std::uint32_t pieces = 1600;
    std::string rates = "configured";
    double drift = 0.2;
    double ema = 0.5;
    std::uint32_t probe_rounds = 20;
    static void fields(auto& self, auto&& visit) {
      visit_phases(self, visit);
      LONGHAUL_KEY(pieces,
                   "into which a vector is cut, or more; none shorter than 4,096 values or longer "
                   "than a chunk. More of them fill and drain the trees faster",
                   .min = 1, .max = 1 << 20);
      LONGHAUL_KEY(rates,
                   "configured: trees are planned from the job's network; learned: later plans "
                   "follow the rates that traffic reaches",
                   .choices = {"configured", "learned"});
      LONGHAUL_KEY(drift, "learned: change of a rate at which a new plan is tried", .max = 10,
                   .unit = "share", .positive = true);
      LONGHAUL_KEY(ema, "learned: weight of a new figure that differs by less than `drift`",
                   .max = 1, .positive = true);
      LONGHAUL_KEY(probe_rounds,
                   "learned: rounds without a new plan after which an unused pair is tried with a "
                   "small part of the vector; 0: never",
                   .max = 1e9, .unit = "rounds");
    }
  };

  // Uses the sites and rates of the job's network; without a network all links are equal. Its
  // delays are used always, its rates until they are measured.
  PlannedForest(const Config& config, const OverlayParts& parts, const Place& place)
      : config_(config),
        learns_(config.rates == "learned"),
        parameters_(place.layout ? place.layout->parameters().length : 0),
        longest_piece_(place.longest_piece()),
        shortest_piece_(place.standing_for(kShortestPiece)),
        network_(parts.network),
        site_of_(network_ ? sites_of(*network_, place) : number_sites(place)),
        rates_(config.ema, config.drift),
        planner_({config.drift, config.probe_rounds}, network_) {}

  Partition cut(std::uint64_t length, std::uint32_t, std::uint64_t chunk) const override {
    return {length, 1, piece_length(length, config_.pieces, chunk, shortest_piece_)};
  }

  // Returns the team's first trees: as agreed, else as this node plans them. A site's members take
  // turns, from tree to tree, in leading it.
  std::optional<ReducePlan> plan(const Partition& grid, const GroupMembers& team) const override {
    const SiteGroups groups = group_by_site(team, site_of_);
    const SitePlan* const agreed = agreement_.first();
    const bool ours = team.epoch == team_.epoch && team.members == team_.members;
    const bool used = agreed && ours && !agreed->trees.empty();
    return over(used ? *agreed : plan_alone(groups, grid), groups, grid);
  }

  ReducePlan plan_since(Round since, const Partition& grid) const override {
    return over(agreement_.plan(since), group_by_site(team_, site_of_), grid);
  }

  void on_team(std::uint32_t group, const GroupMembers* team) override {
    if (!team || group != 0) return;
    team_ = *team;
    agreement_.new_team(team_.epoch, team_.self, team_.members,
                        group_by_site(team_, site_of_).size());
    planner_.new_team();
    given_at_.clear();
    reports_.clear();
    considered_.reset();
  }

  Standing standing(const VectorId& key) const override {
    if (key.group != 0) return {};
    const bool known = agreement_.first() != nullptr;
    if (!planned_anew(key)) return {0, agreement_.hold_of_first(), known};
    return {agreement_.since(key.round), agreement_.hold(key.round), known};
  }

  // Plans for vectors like the parameters at first, whichever vector is exchanged first.
  void on_ready(const VectorId& key, const Partition& grid, TopologyOutput& output) override {
    if (key.group != 0 || !agreement_.lacks_first()) return;
    const bool own = planned_anew(key) || parameters_ == 0;
    const Partition like = own ? grid : cut(parameters_, 1, longest_piece_);
    tell_all(agreement_.propose_first(plan_alone(group_by_site(team_, site_of_), like)), output);
  }

  void on_contributed(const VectorId& key, Time now) override {
    if (!planned_anew(key)) return;
    agreement_.on_contributed(key.round);
    if (learns_) given_at_[key.round] = now;
  }

  void on_mean_ready(const VectorId& key, const Partition& grid, Time now,
                     TopologyOutput& output) override {
    if (!planned_anew(key)) return;
    if (learns_)
      rates_.close(std::uint32_t(
          std::ranges::count_if(team_.members, [this](Rank rank) { return !far(rank); })));
    agreement_.on_mean_ready(key.round);
    if (!learns_) return;
    grid_ = grid;
    const forest::RateReport own = report(key.round, now);
    if (!agreement_.plans())
      return void(output.told.emplace_back(agreement_.planner(), forest::write(own)));
    reports_[team_.self] = own;
    consider(output);
  }

  void on_moved(const Moved& moved, Time now) override {
    if (!learns_ || !far(moved.peer)) return;
    if (moved.sent) return rates_.on_sent(moved.peer, moved.bytes, moved.waited, now);
    rates_.on_received(moved.bytes, now);
  }

  Status take(Rank from, const TopologyMessage& notice, TopologyOutput& output) override {
    return forest::read(notice, [&](const auto& one) -> Status { return take(from, one, output); });
  }

  void state(Archive& ar) override {
    ar(team_, rates_, agreement_, given_at_, planner_, reports_, considered_);
    std::array<std::uint64_t, 2> grid = {grid_ ? grid_->length() : 0,
                                         grid_ ? grid_->range(0).length : 0};
    ar(grid);
    if (ar.loading())
      grid_ =
          grid[0] > 0 && grid[1] > 0 ? std::optional(Partition(grid[0], 1, grid[1])) : std::nullopt;
  }

  const forest::PlanAgreement& agreement() const { return agreement_; }

 private:
  using NewPlan = forest::NewPlan;
  using PlanAck = forest::PlanAck;
  using RateReport = forest::RateReport;

  // Returns true if the vector is the parameters of all workers.
  static bool planned_anew(const VectorId& key) { return key.group == 0 && key.range == 0; }

  ReducePlan over(const SitePlan& plan, const SiteGroups& groups, const Partition& grid) const {
    ReducePlan made = over_sites(plan, groups, grid.pieces());
    made.how.streamed = config_.phases == "streamed";
    return made;
  }

  // Returns this node's own plan, by the rates of the job, which measured rates replace later. If
  // the job has none, the time for a vector is unknown too, so all parts go before all means.
  SitePlan plan_alone(const SiteGroups& groups, const Partition& grid) const {
    if (!learns_) return plan_trees(groups, network_.get(), grid);
    if (network_) {
      const flow::Wan configured = flow::among(*network_, groups.sites);
      if (flow::Capacities(configured).largest() > 0) return plan_between(configured, grid, false);
    }
    return {plan_between(forest::blank_network(groups, network_.get()), grid, false).trees};
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
    if (plan.start > 0) output.planned_from = plan.start;
    if (plan.start > 0) output.figures.emplace_back("plan", plan.start, plan.version);
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
    output.planned_from = proposal->start;
    output.figures.emplace_back("plan", proposal->start, proposal->version);
  }

  void tell_all(const auto& message, TopologyOutput& output) const {
    const TopologyMessage notice = forest::write(message);
    for (const Rank to : team_.others()) output.told.emplace_back(to, notice);
  }

  const Config config_;
  const bool learns_;               // measures rates of its traffic
  const std::uint64_t parameters_;  // length of the job's parameters; 0: no model
  const std::uint64_t longest_piece_, shortest_piece_;
  const std::shared_ptr<const flow::Wan> network_;  // the job file's; null if there is none
  const std::vector<std::uint32_t> site_of_;        // by rank
  GroupMembers team_;
  forest::PairRates rates_;
  forest::PlanAgreement agreement_;
  std::map<Round, Time> given_at_;  // contributions to rounds that have not ended; learned rates
  // Only used at the planner.
  forest::RatePlanner planner_;
  std::map<Rank, RateReport> reports_;  // the newest report of each member
  std::optional<Partition> grid_;       // partition of the parameters
  std::optional<Round> considered_;     // the last round whose reports were all considered
};

}  // namespace longhaul::overlay
