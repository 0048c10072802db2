// Plans as trees, and what goes over each link by them.
#include <algorithm>

#include "longhaul/overlay/agreed.h"
#include "longhaul/overlay/hub.h"
#include "longhaul/overlay/ring.h"

namespace longhaul::overlay {

// A star around each owner.
std::optional<RoutePlan> Topology::routes(const Partition& grid, const GroupMembers& team) const {
  if (auto forest = this->forest(grid, team)) return RoutePlan{*std::move(forest)};
  const Plan plan(grid, team);
  RoutePlan routes;
  for (const Rank owner : plan.owners()) {
    const std::uint32_t root = team.place_of(owner).value();
    const std::vector<std::uint32_t> to_root(team.nodes(), root);
    routes.forest.trees.push_back({root, to_root, to_root});
  }
  for (std::size_t piece = 0; piece < grid.pieces(); ++piece) {
    const auto owners = plan.owners();
    const auto owner = std::lower_bound(owners.begin(), owners.end(), plan.owner(piece));
    routes.forest.tree_of.push_back(std::uint32_t(owner - owners.begin()));
  }
  return routes;
}

std::optional<RoutePlan> Hub::routes(const Partition& grid, const GroupMembers& team) const {
  auto routes = Topology::routes(grid, team);
  if (options_.exact_means) routes->means = Coding::exact;
  return routes;
}

// Once round to the owner, who stands last, and once round from it.
std::optional<RoutePlan> Ring::routes(const Partition& grid, const GroupMembers& team) const {
  auto routes = Topology::routes(grid, team);
  std::vector<std::uint32_t> places;
  for (const Rank rank : circle(team)) places.push_back(team.place_of(rank).value());
  for (Tree& tree : routes->forest.trees)
    for (std::size_t i = 0; i < places.size(); ++i) {
      const std::uint32_t from = places[i], to = places[(i + 1) % places.size()];
      if (from != tree.root) tree.reduce_to[from] = to;
      if (to != tree.root) tree.spread_from[to] = from;
    }
  return routes;
}

std::optional<Traffic> AgreedMean::planned(std::uint64_t length) const {
  LH_CHECK(length > 0);
  const GroupMembers& team = groups_.at(0).team();
  if (team.members.empty()) return std::nullopt;
  const Topology& topology = *common_.topology;
  const Partition grid = topology.cut(length, team.shards(), common_.place.longest_piece());
  const auto routes = topology.routes(grid, team);
  if (!routes) return std::nullopt;
  struct Sum {
    std::uint64_t values = 0, part = 0, mean = 0;  // bytes of a part and of the mean
  };
  Traffic traffic;
  std::vector<Sum> sums(routes->forest.trees.size());
  for (std::size_t piece = 0; piece < grid.pieces(); ++piece) {
    Sum& sum = sums[routes->forest.tree_of[piece]];
    const std::uint64_t values = grid.range(piece).length;
    sum.values += values;
    sum.part += common_.coder.size(Coding::up, grid.range(piece));
    sum.mean += common_.coder.size(routes->means, grid.range(piece));
  }
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const Tree& tree = routes->forest.trees[i];
    if (sums[i].values == 0) continue;
    if (routes->all_to_all) {
      for (const Rank from : team.members)
        for (const Rank to : team.members)
          if (from != to) traffic.loads[{from, to}].reduce += sums[i].part;
      continue;
    }
    for (std::uint32_t place = 0; place < team.nodes(); ++place) {
      if (place == tree.root) continue;
      const Rank self = team.node(place);
      traffic.loads[{self, team.node(tree.reduce_to[place])}].reduce += sums[i].part;
      traffic.loads[{team.node(tree.spread_from[place]), self}].spread += sums[i].mean;
    }
    const Depths depths = depths_of(tree);
    traffic.trees.push_back(
        {team.node(tree.root), double(sums[i].values) / double(length), depths.up, depths.down});
  }
  std::stable_sort(traffic.trees.begin(), traffic.trees.end(),
                   [](const auto& a, const auto& b) { return a.share > b.share; });
  return traffic;
}

}  // namespace longhaul::overlay
