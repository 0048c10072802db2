// Invariants: the tree, here: agreed_test.cpp.
#include "longhaul/overlay/fixed_plans.h"

#include <gtest/gtest.h>

namespace longhaul::overlay {
namespace {

using Places = std::vector<std::uint32_t>;

Place seeded_place(std::uint64_t seed, std::uint32_t nodes) {
  return {.members = std::make_shared<Members>(Members(nodes)),
          .layout = Layout::flat(1),
          .seed = seed};
}

Places parents(const Binary& binary, const GroupMembers& team) {
  const auto forest = binary.plan(Partition(1, 1, 1), team);
  const auto members = std::uint32_t(team.members.size());
  EXPECT_TRUE(check_plan(*forest, members, team.nodes(), 1));
  return forest->trees[0].reduce_to;
}

TEST(Binary, BelowTheIthStandTheTwoThatFollowTwiceAsFar) {
  EXPECT_EQ(binary_tree({0, 1, 2, 3, 4, 5, 6, 7}).reduce_to, (Places{0, 0, 0, 1, 1, 2, 2, 3}));
  EXPECT_EQ(binary_tree({3, 0, 1, 2}).reduce_to, (Places{3, 3, 0, 3}));
  EXPECT_EQ(binary_tree({0}).reduce_to, (Places{0}));
}

// The server first, whether it is a worker or not; then the others by rank.
TEST(Binary, TheServerIsTheRoot) {
  const Binary binary({}, {}, seeded_place(1, 8));
  GroupMembers team{.workers = {0, 1, 2, 5}, .members = {1, 2, 5}, .server = 1};
  EXPECT_EQ(parents(binary, team), (Places{0, 0, 0}));
  team.server = 7;
  EXPECT_EQ(parents(binary, team), (Places{3, 3, 0, 3}));
}

// Drawn by the job's seed, once: a loss leaves the order of the others as it was.
TEST(Binary, ASeededOrderIsThatOfTheSeed) {
  std::vector<Rank> all(20);
  for (Rank rank = 0; rank < 20; ++rank) all[rank] = rank;
  const GroupMembers team{.workers = all, .members = all, .server = 0};
  const auto with = [&](std::uint64_t seed) {
    return parents(Binary({.order = "seeded"}, {}, seeded_place(seed, 20)), team);
  };
  EXPECT_EQ(with(1), with(1));
  EXPECT_NE(with(1), with(2));
  EXPECT_NE(with(1), parents(Binary({}, {}, seeded_place(1, 20)), team));
  EXPECT_EQ(with(1)[0], 0u) << "the server is no part of it";
}

}  // namespace
}  // namespace longhaul::overlay
