// Who takes part, who owns what, and the cut.
#include "longhaul/overlay/plan.h"

#include <numeric>
#include <set>

#include <gtest/gtest.h>

#include "longhaul/base/archive.h"
#include "longhaul/base/rng.h"
#include "longhaul/base/testing/archived.h"

namespace longhaul::overlay {
namespace {

using Ranks = std::vector<Rank>;

GroupMembers team_with(Rank self, Ranks workers, Ranks members) {
  return {self, 0, std::move(workers), std::move(members), {}};
}

Ranks owners_of(const Plan& plan) {
  Ranks owners;
  for (std::size_t piece = 0; piece < plan.grid().pieces(); ++piece)
    owners.push_back(plan.owner(piece));
  return owners;
}

// Strangers, too: messages come from any rank.
TEST(GroupMembers, OnlyMembersHaveAPlaceInIt) {
  const GroupMembers team = team_with(4, {0, 1, 4, 9, 17}, {1, 4, 9, 17});
  for (std::uint32_t i = 0; i < team.members.size(); ++i)
    EXPECT_EQ(team.index_of(team.members[i]), i);
  for (const Rank stranger : {0u, 2u, 5u, 16u, 18u, ~0u})
    EXPECT_EQ(team.index_of(stranger), std::nullopt) << stranger;
  EXPECT_EQ(team_with(0, {0}, {}).index_of(0), std::nullopt);
  EXPECT_TRUE(team.takes_part());
  EXPECT_FALSE(team_with(0, {0, 1}, {1}).takes_part()) << "lost";
  EXPECT_FALSE(team_with(2, {0, 1}, {0, 1}).takes_part()) << "a server";
}

// If all began with the same peer, one link would carry everything first.
TEST(GroupMembers, InEveryTurnAllMembersSpeakToDifferentOthers) {
  const Ranks members = {1, 4, 9, 17};
  std::vector<std::set<Rank>> receivers(members.size() - 1);
  for (const Rank self : members) {
    const Ranks others = team_with(self, members, members).others();
    ASSERT_EQ(others.size(), members.size() - 1) << self;
    for (std::size_t turn = 0; turn < others.size(); ++turn) receivers[turn].insert(others[turn]);
  }
  for (const std::set<Rank>& in_turn : receivers) EXPECT_EQ(in_turn, (std::set<Rank>{1, 4, 9, 17}));
  EXPECT_EQ(team_with(5, members, members).others(), (Ranks{9, 17, 1, 4})) << "a server: all";
  EXPECT_TRUE(team_with(7, {7}, {7}).others().empty());
}

// The invariants that all attempts lean on, over random losses: pieces_of() is a partition, in
// ascending order, and agrees with owner(); all owners are members.
TEST(Plan, EveryPieceHasOneOwnerWhoIsAMember) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed, {Purpose::test});
    Ranks workers(1 + random.below(9));
    std::iota(workers.begin(), workers.end(), Rank(random.below(3)));
    Ranks members = workers;
    while (members.size() > 1 && random.below(3) > 0)
      members.erase(members.begin() + std::ptrdiff_t(random.below(members.size())));
    const Partition grid(1 + random.below(300), std::uint32_t(workers.size()),
                         1 + random.below(20));
    const Plan plan(grid, team_with(members[0], workers, members));

    std::size_t count = 0;
    const Ranks by_piece = owners_of(plan);
    for (const Rank owner : std::set<Rank>(by_piece.begin(), by_piece.end())) {
      const auto pieces = plan.pieces_of(owner);
      ASSERT_TRUE(std::binary_search(members.begin(), members.end(), owner));
      ASSERT_FALSE(pieces.empty());
      ASSERT_TRUE(std::is_sorted(pieces.begin(), pieces.end()));
      for (const std::uint32_t piece : pieces) ASSERT_EQ(plan.owner(piece), owner);
      count += pieces.size();
    }
    ASSERT_EQ(count, grid.pieces());
  }
}

// a piece that two nodes think is owned by two others is never reduced by anybody.
TEST(Plan, R2_1_AllMembersMakeTheSamePlan) {
  const Ranks workers = {0, 1, 2, 3, 4}, members = {1, 2, 4};
  const Partition grid(1000, 5, 30);
  const Ranks first = owners_of(Plan(grid, team_with(1, workers, members)));
  for (const Rank self : members)
    EXPECT_EQ(owners_of(Plan(grid, team_with(self, workers, members))), first) << self;
}

// By rank of the worker and not by place among those that live, or every loss would move all
// pieces. Workers need not begin with rank 0.
TEST(Plan, WhatALossDoesNotTouchStaysWithItsOwner) {
  const Ranks workers = {2, 3, 5, 8};
  const Partition grid(4000, 4, 100);
  const Plan all(grid, team_with(2, workers, workers));
  for (std::uint32_t shard = 0; shard < 4; ++shard)
    for (std::size_t piece = 10 * shard; piece < 10 * shard + 10; ++piece)
      ASSERT_EQ(all.owner(piece), workers[shard]) << piece;
  for (const Rank lost : workers) {
    Ranks members = workers;
    std::erase(members, lost);
    const Plan left(grid, team_with(members[0], workers, members));
    for (std::size_t piece = 0; piece < grid.pieces(); ++piece) {
      if (all.owner(piece) != lost)
        ASSERT_EQ(left.owner(piece), all.owner(piece)) << piece << " without " << lost;
    }
    for (const Rank member : members) {  // ten pieces among three
      EXPECT_GE(left.pieces_of(member).size(), 13u) << member << " without " << lost;
      EXPECT_LE(left.pieces_of(member).size(), 14u) << member << " without " << lost;
    }
  }
}

// Shards are rounded down: of two values and four workers the second and fourth have one each. The
// root has everybody's share; it is whoever owns the first piece, and not the lowest owner.
TEST(Plan, AShortVectorHasFewOwnersAndARoot) {
  const Ranks four = {0, 1, 2, 3};
  const Partition two(2, 4, 100);
  const Plan whole(two, team_with(0, four, four));
  EXPECT_EQ(owners_of(whole), (Ranks{1, 3}));
  EXPECT_EQ(whole.root(), 1u);

  // Pieces 0, 1 and 2 are at home with 1, 3 and 5; 3 and 5 are lost: 1 % 2 is rank 1, 2 % 2 rank 0.
  const Partition three(3, 6, 100);
  const Plan lost(three, team_with(0, {0, 1, 2, 3, 4, 5}, {0, 1}));
  EXPECT_EQ(owners_of(lost), (Ranks{1, 1, 0}));
  EXPECT_EQ(lost.root(), 1u);
}

// What a run that was stopped after a loss goes on with.
TEST(GroupMembers, WhatViewsChangeIsSaved) {
  GroupMembers team{.self = 1, .epoch = 3, .workers = {0, 1, 2}, .members = {1, 2}, .server = 2};
  GroupMembers loaded = team_with(1, {0, 1, 2}, {0, 1, 2});
  loaded.server = 0;
  ASSERT_TRUE(longhaul::testing::copy_state(team, loaded));
  EXPECT_EQ(loaded.epoch, 3u);
  EXPECT_EQ(loaded.members, team.members);
  EXPECT_EQ(loaded.server, team.server);
}

// Whoever sends a piece is asked what it owns: the lost, servers and strangers own nothing.
TEST(Plan, WhoOwnsNothingHasNoPieces) {
  const Partition grid(4000, 4, 100);
  const Plan left(grid, team_with(1, {0, 1, 2, 3}, {1, 3}));
  for (const Rank rank : {0u, 2u, 4u, ~0u}) EXPECT_TRUE(left.pieces_of(rank).empty()) << rank;
  GroupMembers hub = team_with(0, {0, 1}, {0, 1});
  hub.server = 7;
  const Partition one(4000, 1, 100);
  const Plan served(one, hub);
  for (const Rank rank : {0u, 1u, 6u, 8u}) EXPECT_TRUE(served.pieces_of(rank).empty()) << rank;
  EXPECT_EQ(served.pieces_of(7).size(), 40u);
}

// Pieces are cut in ascending order, so what is sent of an owner's is, too.
TEST(Plan, RangesAreThoseOfThePiecesAskedFor) {
  const Partition grid(250, 1, 100);
  const Plan plan(grid, team_with(0, {0}, {0}));
  EXPECT_EQ(plan.ranges(plan.pieces_of(0)), (std::vector<Range>{{0, 100}, {100, 100}, {200, 50}}));
  const std::vector<std::uint32_t> last = {2};
  EXPECT_EQ(plan.ranges(last), (std::vector<Range>{{200, 50}}));
  EXPECT_TRUE(plan.ranges({}).empty());
}

// A server that outlives all workers has nothing to plan for; AgreedMean makes no plan then.
TEST(PlanDeathTest, APlanNeedsAMember) {
  GroupMembers nobody = team_with(2, {0, 1}, {});
  nobody.server = 2;
  EXPECT_DEATH(Plan(Partition(10, 1, 5), nobody), "members.empty");
}

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

TEST(GroupMembers, OthersBeginAfterOneself) {
  GroupMembers five = team_with(0, {0, 1, 2, 3, 4}, {0, 1, 2, 4});
  five.self = 2;
  EXPECT_EQ(five.others(), (std::vector<Rank>{4, 0, 1}));
}

TEST(Plan, AServerOwnsAllAndNeedNotTakePart) {
  GroupMembers hub = team_with(0, {0, 1}, {0, 1});
  hub.server = 2;
  const Partition grid(4000, 1, 100);
  const Plan plan(grid, hub);
  EXPECT_EQ(plan.pieces_of(2).size(), 40u);
  EXPECT_EQ(owners_of(plan), Ranks(40, 2));
  EXPECT_EQ(plan.root(), 2u);
}

TEST(Plan, PiecesOfTheLostAreDealtOverTheSurvivors) {
  const Partition grid(4000, 4, 100);
  const Plan all(grid, team_with(0, {0, 1, 2, 3}, {0, 1, 2, 3}));
  for (Rank rank = 0; rank < 4; ++rank) EXPECT_EQ(all.pieces_of(rank).size(), 10u);
  EXPECT_EQ(all.root(), 0u);
  const Plan left(grid, team_with(0, {0, 1, 2, 3}, {1, 3}));
  EXPECT_EQ(left.pieces_of(1).size(), 20u);
  EXPECT_EQ(left.pieces_of(3).size(), 20u);
  EXPECT_TRUE(left.pieces_of(0).empty());
  for (std::size_t piece = 10; piece < 20; ++piece) EXPECT_EQ(left.owner(piece), 1u);
}

}  // namespace

}  // namespace longhaul::overlay
