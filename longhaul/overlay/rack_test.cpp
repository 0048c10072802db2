// Invariants: the groups, here: agreed_test.cpp.
#include "longhaul/overlay/fixed_plans.h"

#include <gtest/gtest.h>

namespace longhaul::overlay {
namespace {

using Places = std::vector<std::uint32_t>;

// The lowest of each group aggregates; sizes differ by at most one.
TEST(Rack, MembersGiveToTheLowestOfTheirGroupAndThoseToTheServer) {
  EXPECT_EQ(rack_tree(9, 0, 0).reduce_to, (Places{0, 0, 0, 0, 3, 3, 0, 6, 6}));
  EXPECT_EQ(rack_tree(9, 0, 9).reduce_to, (Places{9, 0, 0, 9, 3, 3, 9, 6, 6, 9}));
  EXPECT_EQ(rack_tree(7, 0, 0).reduce_to, (Places{0, 0, 0, 2, 0, 4, 4})) << "2.6 are 3 groups";
  EXPECT_EQ(rack_tree(5, 2, 0).reduce_to, (Places{0, 0, 0, 2, 2}));
  EXPECT_EQ(rack_tree(4, 1, 0).reduce_to, (Places{0, 0, 0, 0})) << "a hub";
  EXPECT_EQ(rack_tree(3, 50, 3).reduce_to, (Places{3, 3, 3, 3})) << "a group of its own for each";
  EXPECT_EQ(rack_tree(1, 0, 0).reduce_to, (Places{0}));
}

// For any number, and whoever serves.
TEST(Rack, IsATreeTwoLinksDeep) {
  for (std::uint32_t members = 1; members <= 40; ++members)
    for (const std::uint32_t groups : {0u, 1u, 3u, 40u, 41u})
      for (const std::uint32_t server : {0u, members / 2, members}) {
        const Tree tree = rack_tree(members, groups, server);
        const auto nodes = std::max(members, server + 1);
        ASSERT_TRUE(check_plan({{tree}, {}}, members, nodes, 0)) << members << " " << server;
        EXPECT_LE(hops_of(tree), 4u);
      }
}

}  // namespace
}  // namespace longhaul::overlay
