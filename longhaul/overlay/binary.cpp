#include "longhaul/overlay/binary.h"

#include <numeric>

namespace longhaul::overlay {

Tree binary_tree(const std::vector<std::uint32_t>& order) {
  Tree tree{.root = order.front(), .reduce_to = order, .spread_from = {}};
  for (std::size_t i = 1; i < order.size(); ++i) tree.reduce_to[order[i]] = order[(i - 1) / 2];
  tree.reduce_to[tree.root] = tree.root;
  tree.spread_from = tree.reduce_to;
  return tree;
}

// Drawn once, from what all nodes draw alike, so that a loss moves nobody but those behind the gap.
Binary::Binary(const BinaryConfig& config, std::optional<Rank> server, const Place& place)
    : streamed_(config.phases == "streamed"), server_(server), order_(place.size()) {
  std::iota(order_.begin(), order_.end(), Rank{0});
  if (config.order == "seeded") Random(place.seed, {Purpose::overlay}).shuffle(std::span(order_));
}

std::optional<Forest> Binary::forest(const Partition& grid, const GroupMembers& team) const {
  std::vector<std::uint32_t> order = {team.place_of(team.server.value()).value()};
  for (const Rank rank : order_)
    if (const auto place = team.place_of(rank); place && *place != order.front())
      order.push_back(*place);
  return Forest{{binary_tree(order)}, std::vector<std::uint32_t>(grid.pieces(), 0)};
}

}  // namespace longhaul::overlay
