#include "longhaul/overlay/forest.h"

#include "longhaul/overlay/belief.h"

namespace longhaul::overlay {
namespace {

// Group and range of the parameters.
bool planned_anew(const VectorId& key) { return key.group == 0 && key.range == 0; }

}  // namespace

PlannedForest::PlannedForest(const ForestConfig& config, std::shared_ptr<const flow::Wan> network,
                             const Place& place)
    : config_(config),
      network_(std::move(network)),
      site_of_(network_ ? sites_of(*network_, place) : number_sites(place)),
      replanner_(config.rates == "learned"
                     ? std::make_unique<forest::Replanner>(
                           forest::ReplannerConfig{config.ema, {config.drift, config.probe_rounds}},
                           network_, site_of_)
                     : nullptr) {}

// A site's members take turns, from tree to tree, at being the one who speaks with other sites.
std::optional<Forest> PlannedForest::forest(const Partition& grid, const GroupMembers& team) const {
  const SiteGroups groups = group_by_site(team, site_of_);
  const SitePlan plan =
      replanner_ ? replanner_->first_plan(groups, grid) : plan_trees(groups, network_.get(), grid);
  return over_sites(plan, groups, grid.pieces());
}

void PlannedForest::on_team(std::uint32_t group, const GroupMembers* team) {
  if (replanner_ && team && group == 0) replanner_->new_team(*team);
}

void PlannedForest::state(Archive& ar) {
  if (replanner_) replanner_->state(ar);
}

PlannedForest::Standing PlannedForest::standing(const VectorId& key) const {
  if (!planned_anew(key)) return {};
  return {replanner_->since(key.round), replanner_->hold(key.round)};
}

Forest PlannedForest::forest_since(Round since, const Partition& grid) const {
  return replanner_->forest_since(since, grid);
}

void PlannedForest::on_contributed(const VectorId& key) {
  if (planned_anew(key)) replanner_->on_contributed(key.round);
}

void PlannedForest::on_mean_ready(const VectorId& key, const Partition& grid,
                                  TopologyOutput& output) {
  if (planned_anew(key)) replanner_->on_mean_ready(key.round, grid, output);
}

void PlannedForest::on_moved(const Moved& moved, Time now) {
  if (moved.sent) return replanner_->on_sent(moved.peer, moved.bytes, moved.waited, now);
  replanner_->on_received(moved.peer, moved.bytes, now);
}

Status PlannedForest::take(Rank from, const TopologyMessage& notice, TopologyOutput& output) {
  return replanner_->take(from, notice, output);
}

}  // namespace longhaul::overlay
