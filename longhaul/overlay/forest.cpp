#include "longhaul/overlay/forest.h"

#include "longhaul/overlay/belief.h"

namespace longhaul::overlay {
namespace {

// Of all workers, and of the parameters.
bool of_all(const VectorId& key) { return key.group == 0; }
bool planned_anew(const VectorId& key) { return of_all(key) && key.range == 0; }

forest::Replanner replanner_of(const ForestConfig& config,
                               const std::shared_ptr<const flow::Wan>& network,
                               const Place& place) {
  return {{config.rates == "learned", config.ema, {config.drift, config.probe_rounds}},
          network,
          network ? sites_of(*network, place) : number_sites(place)};
}

}  // namespace

PlannedForest::PlannedForest(const ForestConfig& config, std::shared_ptr<const flow::Wan> network,
                             const Place& place)
    : config_(config),
      parameters_(place.layout ? place.layout->parameters().length : 0),
      longest_piece_(place.longest_piece()),
      replanner_(replanner_of(config, network, place)) {}

// A site's members take turns, from tree to tree, at being the one who speaks with other sites.
std::optional<Forest> PlannedForest::forest(const Partition& grid, const GroupMembers& team) const {
  return replanner_.first_forest(team, grid);
}

void PlannedForest::on_team(std::uint32_t group, const GroupMembers* team) {
  if (team && group == 0) replanner_.new_team(*team);
}

void PlannedForest::state(Archive& ar) { replanner_.state(ar); }

// What is not of the parameters, and of all, waits for the first plan alone; groups of some workers
// do not go by it.
PlannedForest::Standing PlannedForest::standing(const VectorId& key) const {
  if (!of_all(key)) return {};
  if (!planned_anew(key)) return {0, replanner_.hold_of_first()};
  return {replanner_.since(key.round), replanner_.hold(key.round)};
}

Forest PlannedForest::forest_since(Round since, const Partition& grid) const {
  return replanner_.forest_since(since, grid);
}

// The first plan is one for vectors like the parameters, whatever is exchanged first.
void PlannedForest::on_ready(const VectorId& key, const Partition& grid, TopologyOutput& output) {
  if (!of_all(key)) return;
  const bool own = planned_anew(key) || parameters_ == 0;
  replanner_.on_ready(own ? grid : cut(parameters_, 1, longest_piece_), output);
}

void PlannedForest::on_contributed(const VectorId& key, Time now) {
  if (planned_anew(key)) replanner_.on_contributed(key.round, now);
}

void PlannedForest::on_mean_ready(const VectorId& key, const Partition& grid, Time now,
                                  TopologyOutput& output) {
  if (planned_anew(key)) replanner_.on_mean_ready(key.round, grid, now, output);
}

void PlannedForest::on_moved(const Moved& moved, Time now) {
  if (moved.sent) return replanner_.on_sent(moved.peer, moved.bytes, moved.waited, now);
  replanner_.on_received(moved.peer, moved.bytes, now);
}

Status PlannedForest::take(Rank from, const TopologyMessage& notice, TopologyOutput& output) {
  return replanner_.take(from, notice, output);
}

}  // namespace longhaul::overlay
