#include "longhaul/overlay/halving_doubling.h"

#include <bit>

namespace longhaul::overlay {

std::uint32_t core_of(std::uint32_t n) { return std::bit_floor(n); }

// In step k of the halving a node gives the half of what is left to it that the node at a distance
// of core / 2^k needs, so a part comes nearer to its owner by the highest bit in which its place
// differs. Those behind the core fold into the first, who bring them the mean.
Tree halving_tree(std::uint32_t members, std::uint32_t owner) {
  const std::uint32_t core = core_of(members);
  Tree tree{.root = owner, .reduce_to = {}, .spread_from = {}};
  for (std::uint32_t place = 0; place < members; ++place)
    tree.reduce_to.push_back(place < core ? place ^ std::bit_floor(place ^ owner) : place - core);
  tree.spread_from = tree.reduce_to;
  return tree;
}

// The cut is for the workers that the job began with; of a smaller core each owns several shards.
std::optional<Forest> HalvingDoubling::forest(const Partition& grid,
                                              const GroupMembers& team) const {
  const auto members = std::uint32_t(team.members.size());
  const std::uint64_t core = core_of(members);
  const std::uint64_t shards = core_of(team.shards());
  Forest forest;
  for (std::uint32_t owner = 0; owner < core; ++owner)
    forest.trees.push_back(halving_tree(members, owner));
  for (std::size_t piece = 0; piece < grid.pieces(); ++piece)
    forest.tree_of.push_back(std::uint32_t(grid.shard_of(piece) * core / shards));
  return forest;
}

}  // namespace longhaul::overlay
