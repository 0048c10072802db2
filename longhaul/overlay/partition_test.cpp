#include "longhaul/overlay/partition.h"

#include <gtest/gtest.h>

#include "longhaul/overlay/plan.h"

namespace longhaul::overlay {
namespace {

TEST(Partition, PiecesTileTheVectorAndAreFoundAgain) {
  for (std::uint64_t length : {1u, 2u, 7u, 64u, 1000u, 4097u})
    for (std::uint32_t shards : {1u, 2u, 3u, 5u, 100u})
      for (std::uint64_t longest : {1u, 4u, 64u, 5000u}) {
        const Partition grid(length, shards, longest);
        std::uint64_t end = 0;
        for (std::size_t piece = 0; piece < grid.pieces(); ++piece) {
          const Range range = grid.range(piece);
          ASSERT_EQ(range.offset, end);
          ASSERT_TRUE(range.length > 0 && range.length <= longest);
          ASSERT_EQ(grid.find(range), piece);
          ASSERT_EQ(grid.find({range.offset, range.length + 1}), std::nullopt);
          ASSERT_NE(grid.find({range.offset + 1, range.length}), piece);
          end = range.end();
        }
        ASSERT_EQ(end, length);
      }
}

TEST(Partition, ShardsDifferByAtMostOneValue) {
  const Partition grid(1000, 7, 1 << 20);
  ASSERT_EQ(grid.pieces(), 7u);
  for (std::size_t piece = 0; piece < 7; ++piece) {
    EXPECT_EQ(grid.shard_of(piece), piece);
    EXPECT_GE(grid.range(piece).length, 142u);
    EXPECT_LE(grid.range(piece).length, 143u);
  }
}

GroupMembers team(std::vector<Rank> workers, std::vector<Rank> members) {
  GroupMembers team;
  team.self = members.front();
  team.workers = std::move(workers);
  team.members = std::move(members);
  return team;
}

TEST(Plan, PiecesOfTheLostAreDealtOverTheSurvivors) {
  const Partition grid(4000, 4, 100);
  const Plan all(grid, team({0, 1, 2, 3}, {0, 1, 2, 3}));
  for (Rank rank = 0; rank < 4; ++rank) EXPECT_EQ(all.pieces_of(rank).size(), 10u);
  EXPECT_EQ(all.root(), 0u);
  const Plan left(grid, team({0, 1, 2, 3}, {1, 3}));
  EXPECT_EQ(left.pieces_of(1).size(), 20u);
  EXPECT_EQ(left.pieces_of(3).size(), 20u);
  EXPECT_TRUE(left.pieces_of(0).empty());
  for (std::size_t piece = 10; piece < 20; ++piece) EXPECT_EQ(left.owner(piece), 1u);
}

TEST(Plan, AServerOwnsAllAndNeedNotTakePart) {
  GroupMembers hub = team({0, 1}, {0, 1});
  hub.server = 2;
  const Partition grid(4000, 1, 100);
  const Plan plan(grid, hub);
  EXPECT_EQ(plan.pieces_of(2).size(), 40u);
  EXPECT_EQ(plan.owners().size(), 1u);
  EXPECT_EQ(plan.root(), 2u);
}

TEST(GroupMembers, OthersBeginAfterOneself) {
  GroupMembers five = team({0, 1, 2, 3, 4}, {0, 1, 2, 4});
  five.self = 2;
  EXPECT_EQ(five.others(), (std::vector<Rank>{4, 0, 1}));
}

}  // namespace
}  // namespace longhaul::overlay
