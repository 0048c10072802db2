#include "longhaul/sync/shadow/shard.h"

#include <gtest/gtest.h>

namespace longhaul::sync::shadow {
namespace {

Place place_with(const std::vector<Role>& roles, std::uint64_t size) {
  Members members;
  for (const Role role : roles) members.push_back({.site = "s", .roles = std::uint8_t(role)});
  Place place;
  place.members = std::make_shared<const Members>(std::move(members));
  place.layout = std::make_shared<const Layout>(
      std::vector<LayerRange>{{"x", {0, size}, {std::int64_t(size)}}});
  return place;
}

std::vector<Rank> servers_of(const std::vector<Shard>& shards) {
  std::vector<Rank> ranks;
  for (const Shard& shard : shards) ranks.push_back(shard.server);
  return ranks;
}

TEST(Shards, CoverTheVectorAndPreferServers) {
  constexpr Role w = Role::worker, s = Role::server;
  const Place place = place_with({w, s, w, s, w}, 11);
  const auto three = shards_of(place, 3, 3);
  EXPECT_EQ(servers_of(three), (std::vector<Rank>{3, 1, 4}));
  std::uint64_t offset = 0;
  for (const Shard& shard : three) {
    EXPECT_EQ(shard.range.offset, offset);
    EXPECT_GE(shard.range.length, 3u);
    offset += shard.range.length;
  }
  EXPECT_EQ(offset, 11u);
  EXPECT_EQ(servers_of(shards_of(place, 0, 64)), (std::vector<Rank>{0, 1, 3, 2, 4}));
  EXPECT_EQ(shards_of(place_with({w, w, w}, 2), 0, 64).size(), 2u);
}

TEST(Shards, OfALostServerTheNextNodeFollows) {
  constexpr Role w = Role::worker;
  const Place place = place_with({w, w, w, w}, 11);
  Shard shard;
  shard.server = 2;
  EXPECT_FALSE(shard.follow({.epoch = 1, .live = {0, 2, 3}}, place));
  EXPECT_TRUE(shard.follow({.epoch = 2, .live = {0, 1}}, place));
  EXPECT_EQ(shard.server, 0u);
  EXPECT_EQ(shard.server_epoch, 2u);
  // Rank 1 has come back, and may not know that rank 0 served: rank 2 has stayed, and follows.
  EXPECT_TRUE(shard.follow({.epoch = 4, .live = {1, 2}, .returned = {{1, 3}}}, place));
  EXPECT_EQ(shard.server, 2u);
  EXPECT_TRUE(shard.follow({.epoch = 5, .live = {1}, .returned = {{1, 3}}}, place));
  EXPECT_EQ(shard.server, 1u);
}

TEST(Shards, NobodyIsFollowedByAWitness) {
  const Place place = place_with({Role::worker, Role::witness, Role::worker}, 11);
  Shard shard;
  EXPECT_TRUE(shard.follow({.epoch = 1, .live = {1, 2}}, place));
  EXPECT_EQ(shard.server, 2u);
}

}  // namespace
}  // namespace longhaul::sync::shadow
