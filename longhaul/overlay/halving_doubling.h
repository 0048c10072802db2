#pragma once
// Recursive halving of sums, recursive doubling of means. docs/overlay/halving_doubling.md
#include <bit>

#include "longhaul/overlay/tree_attempt.h"

namespace longhaul::overlay {

// The largest power of two that is not above n > 0: how many take part in the halving.
inline std::uint32_t core_of(std::uint32_t n) { return std::bit_floor(n); }

// The tree of the segment of `owner`, one of the first core_of(members) places.
// In step k of the halving a node gives the half of what is left to it that the node at a distance
// of core / 2^k needs, so a part comes nearer to its owner by the highest bit in which its place
// differs. Those behind the core fold into the first, who bring them the mean.
inline Tree halving_tree(std::uint32_t members, std::uint32_t owner) {
  const std::uint32_t core = core_of(members);
  Tree tree{.root = owner, .reduce_to = {}, .spread_from = {}};
  for (std::uint32_t place = 0; place < members; ++place)
    tree.reduce_to.push_back(place < core ? place ^ std::bit_floor(place ^ owner) : place - core);
  tree.spread_from = tree.reduce_to;
  return tree;
}

class HalvingDoubling final : public Topology {
 public:
  struct Config {
    std::string phases = "streamed";
    template <class Self, class Visit>
    static void fields(Self& self, Visit&& visit) {
      LONGHAUL_FIELD(phases,
                     .doc =
                         "streamed: a piece goes on when it is mixed, or its mean is there; "
                         "sequential: when its whole segment is",
                     .choices = {"streamed", "sequential"});
    }
  };

  HalvingDoubling(const Config& config, const OverlayParts&, const Place&)
      : streamed_(config.phases == "streamed") {}
  Partition cut(std::uint64_t length, std::uint32_t workers, std::uint64_t chunk) const override {
    return {length, core_of(workers), chunk};
  }
  // The cut is for the workers that the job began with; of a smaller core each owns several shards.
  std::optional<Forest> forest(const Partition& grid, const GroupMembers& team) const override {
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

  std::unique_ptr<Attempt> open(const ExchangeSpec& spec) const override {
    return std::make_unique<TreeAttempt>(spec, streamed_);
  }

 private:
  const bool streamed_;
};

}  // namespace longhaul::overlay
