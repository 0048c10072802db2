#include "longhaul/core/shared_members.h"

#include <gmock/gmock.h>

#include "longhaul/base/archive.h"
#include "longhaul/core/place.h"

namespace longhaul {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(RankList, CopiesShareAndAChangeCopies) {
  RankList ranks = {1, 4, 6};
  const RankList same = ranks;
  EXPECT_TRUE(same.shares(ranks));
  ranks.insert(5);
  EXPECT_FALSE(same.shares(ranks));
  EXPECT_THAT(ranks, ElementsAre(1, 4, 5, 6));
  EXPECT_THAT(same, ElementsAre(1, 4, 6));
  ranks.erase(5);
  EXPECT_EQ(ranks, same);  // equal, and not shared
  EXPECT_FALSE(same.shares(ranks));
}

TEST(RankList, WhatIsThereIsNotAddedAndWhatIsNotIsNotErased) {
  RankList ranks = {1, 4};
  ranks.insert(4);
  ranks.erase(2);
  EXPECT_THAT(ranks, ElementsAre(1, 4));
  EXPECT_TRUE(ranks.has(4));
  EXPECT_FALSE(ranks.has(2));
  ranks.erase(1);
  ranks.erase(4);
  EXPECT_THAT(ranks, IsEmpty());
  EXPECT_TRUE(ranks.shares(RankList()));
  EXPECT_EQ(ranks.size(), 0u);
}

TEST(RankList, ReadsAsAVector) {
  const RankList ranks = RankList::below(3);
  const std::vector<Rank> copied = ranks;
  EXPECT_THAT(copied, ElementsAre(0, 1, 2));
  EXPECT_EQ(ranks.front(), 0u);
  EXPECT_EQ(ranks.back(), 2u);
  EXPECT_EQ(ranks[1], 1u);
}

TEST(RankList, Includes) {
  const RankList whole = {1, 2, 4};
  EXPECT_TRUE(includes(whole, whole));
  EXPECT_TRUE(includes(whole, {1, 4}));
  EXPECT_TRUE(includes(whole, {}));
  EXPECT_FALSE(includes(whole, {1, 3}));
  EXPECT_FALSE(includes({}, whole));
}

TEST(RankList, SavedAndLoaded) {
  RankList ranks = {0, 7};
  Archive saved;
  saved(ranks);
  const Buffer bytes = saved.take();
  RankList loaded = {3};
  Archive ar(bytes);
  ar(loaded);
  EXPECT_TRUE(ar.finish());
  EXPECT_EQ(loaded, ranks);
}

SharedMembers three() {
  Members members(3);
  members[1].roles = std::uint8_t(Role::server);
  return std::make_shared<const Members>(std::move(members));
}

TEST(SharedMembers, RanksByRoleAreSharedByCopies) {
  const SharedMembers members = three();
  const SharedMembers copy = members;
  EXPECT_THAT(members.all(), ElementsAre(0, 1, 2));
  EXPECT_THAT(members.with(Role::worker), ElementsAre(0, 2));
  EXPECT_THAT(members.with(Role::server), ElementsAre(1));
  EXPECT_THAT(members.with(Role::witness), IsEmpty());
  EXPECT_TRUE(copy.with(Role::worker).shares(members.with(Role::worker)));
}

// A node's lists are those of all nodes until a member is lost.
TEST(SharedMembers, LiveRanksAreSharedWhileAllLive) {
  const Place place{.members = three(), .layout = {}};
  View view{0, place.members.all()};
  EXPECT_TRUE(live_with(Role::worker, place, view).shares(place.members.with(Role::worker)));
  view.live.erase(0);
  EXPECT_THAT(live_with(Role::worker, place, view), ElementsAre(2));
}

TEST(SharedMembers, OnceIsMadeOnceForEachKey) {
  const SharedMembers members = three();
  int made = 0;
  const auto ask = [&](std::string_view what, std::byte key) {
    return members.once(what, std::span(&key, 1), [&] { return RankList{Rank(++made)}; });
  };
  EXPECT_THAT(ask("a", std::byte{1}), ElementsAre(1));
  EXPECT_THAT(ask("a", std::byte{1}), ElementsAre(1));
  EXPECT_THAT(ask("a", std::byte{2}), ElementsAre(2));
  EXPECT_THAT(ask("b", std::byte{1}), ElementsAre(3));
  EXPECT_THAT(ask("a", std::byte{1}), ElementsAre(1));
  for (int key = 10; key < 18; ++key) (void)ask("a", std::byte(key));
  EXPECT_THAT(ask("a", std::byte{1}), ElementsAre(12));  // others took its place
}

}  // namespace
}  // namespace longhaul
