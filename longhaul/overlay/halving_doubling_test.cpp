// Invariants: the trees and their shares, here: agreed_test.cpp.
#include "longhaul/overlay/fixed_plans.h"

#include <bit>

#include <gtest/gtest.h>

namespace longhaul::overlay {
namespace {

using Places = std::vector<std::uint32_t>;

ReducePlan forest_of(std::uint32_t workers, std::vector<Rank> members, std::uint64_t length) {
  GroupMembers team{.workers = Places(workers), .members = std::move(members), .server = {}};
  const HalvingDoubling overlay({}, {}, {});
  const Partition grid = overlay.cut(length, workers, 10);
  const ReducePlan forest = overlay.plan(grid, team).value();
  const auto nodes = std::uint32_t(team.members.size());
  EXPECT_TRUE(check_plan(forest, nodes, nodes, grid.pieces()));
  return forest;
}

// Of eight: what goes from 3 to 4 passes 7, where the highest bit is right, and 5.
TEST(HalvingDoubling, APartComesNearerByItsHighestWrongBit) {
  EXPECT_EQ(halving_tree(8, 0).reduce_to, (Places{0, 0, 0, 1, 0, 1, 2, 3}));
  const Places to_four = halving_tree(8, 4).reduce_to;
  EXPECT_EQ(to_four[3], 7u);
  EXPECT_EQ(to_four[7], 5u);
  EXPECT_EQ(to_four[5], 4u);
  EXPECT_EQ(halving_tree(6, 2).reduce_to, (Places{2, 3, 2, 2, 0, 1}))
      << "4 and 5 fold into 0 and 1";
  EXPECT_EQ(halving_tree(1, 0).reduce_to, (Places{0}));
}

// In each step everybody gives to one other and hears from one: 2 (n-1)/n of the vector in all.
TEST(HalvingDoubling, EverybodySendsEachSegmentButItsOwnOnce) {
  for (const std::uint32_t n : {2u, 4u, 8u, 16u, 32u}) {
    std::vector<std::uint32_t> means(n);
    for (std::uint32_t owner = 0; owner < n; ++owner) {
      const Tree tree = halving_tree(n, owner);
      EXPECT_EQ(hops_of(tree), 2 * std::uint32_t(std::bit_width(n) - 1));
      for (std::uint32_t place = 0; place < n; ++place)
        if (place != owner) ++means[tree.spread_from[place]];
    }
    EXPECT_EQ(means, Places(n, n - 1));
  }
}

// For any number, also after losses: all of the core own as much of it.
TEST(HalvingDoubling, TheCoreOwnsTheVectorInEqualShares) {
  for (std::uint32_t workers = 1; workers <= 40; ++workers)
    for (std::uint32_t lost = 0; lost < workers; lost += 1 + workers / 4) {
      std::vector<Rank> members(workers - lost);
      for (Rank rank = 0; rank < members.size(); ++rank) members[rank] = rank + lost;
      const ReducePlan forest = forest_of(workers, members, 10 * 32);
      const std::uint32_t core = core_of(workers - lost);
      ASSERT_EQ(forest.trees.size(), core);
      std::vector<std::uint32_t> pieces(core);
      for (const std::uint32_t tree : forest.tree_of) ++pieces[tree];
      EXPECT_EQ(pieces, Places(core, 32 / core)) << workers << " without " << lost;
    }
}

}  // namespace
}  // namespace longhaul::overlay
