#include "longhaul/overlay/rack.h"

#include <algorithm>
#include <cmath>

namespace longhaul::overlay {

// Group g are the members from g n/G to (g+1) n/G, rounded down; the lowest aggregates.
Tree rack_tree(std::uint32_t members, std::uint32_t groups, std::uint32_t server) {
  if (groups == 0) groups = std::uint32_t(std::lround(std::sqrt(double(members))));
  groups = std::min(groups, members);
  Tree tree{.root = server, .reduce_to = {}, .spread_from = {}};
  for (std::uint64_t group = 0; group < groups; ++group) {
    const auto first = std::uint32_t(group * members / groups);
    const auto behind = std::uint32_t((group + 1) * members / groups);
    tree.reduce_to.push_back(server);
    tree.reduce_to.resize(behind, first);
  }
  tree.reduce_to.resize(std::max(members, server + 1), server);
  tree.reduce_to[server] = server;
  tree.spread_from = tree.reduce_to;
  return tree;
}

std::optional<Forest> Rack::forest(const Partition& grid, const GroupMembers& team) const {
  const std::uint32_t server = team.place_of(team.server.value()).value();
  return Forest{{rack_tree(std::uint32_t(team.members.size()), groups_, server)},
                std::vector<std::uint32_t>(grid.pieces(), 0)};
}

}  // namespace longhaul::overlay
