#include "longhaul/transfer/dgt/ranking.h"

#include <algorithm>
#include <cmath>
#include <set>

#include <gtest/gtest.h>

namespace longhaul::transfer::dgt {
namespace {

using Order = std::vector<std::uint32_t>;

std::vector<Block> blocks_of(std::initializer_list<std::uint32_t> tensors) {
  std::vector<Block> blocks;
  for (const std::uint32_t tensor : tensors) blocks.push_back({{blocks.size(), 1}, tensor});
  return blocks;
}

TEST(Ranking, ByContributionTiesByNumber) {
  const auto blocks = blocks_of({0, 0, 0, 0, 0});
  const std::vector<float> c = {1, 3, 2, 3, 1};
  const Ranking ranking = rank_blocks(blocks, c, 0.4, 3);  // m = floor(2.5) = 2
  EXPECT_EQ(ranking.channels, (std::vector<Order>{{1, 3}, {2}, {0}, {4}}));
}

TEST(Ranking, EachTensorForItself) {
  const auto blocks = blocks_of({0, 0, 1, 1});
  const Ranking ranking = rank_blocks(blocks, std::vector<float>{1, 2, 100, 200}, 0.5, 1);
  EXPECT_EQ(ranking.channels, (std::vector<Order>{{1, 3}, {0, 2}}));
}

TEST(Ranking, WhatContributesNothingIsNotOffered) {
  const auto blocks = blocks_of({0, 0, 0, 1});
  const Ranking ranking = rank_blocks(blocks, std::vector<float>{0, 2, 1, 0}, 0.5, 2);
  EXPECT_EQ(ranking.channels, (std::vector<Order>{{1}, {2}, {}}));
}

TEST(Ranking, AllOrNothing) {
  const auto blocks = blocks_of({0, 0, 0});
  const std::vector<float> c = {1, 2, 3};
  EXPECT_EQ(rank_blocks(blocks, c, 1, 2).channels, (std::vector<Order>{{2, 1, 0}, {}, {}}));
  EXPECT_EQ(rank_blocks(blocks, c, 0, 2).channels, (std::vector<Order>{{}, {2, 1}, {0}}));
}

// Invariant 5 of dgt_test.cpp.
TEST(Ranking, NoBestEffortBlockContributesMoreThanAReliableOne) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    Random random(seed, Stream{});
    std::vector<Block> blocks;
    std::vector<float> c;
    std::uint32_t tensor = 0;
    for (std::uint64_t n = 1 + random.below(60); n > 0; --n) {
      if (random.below(10) == 0) ++tensor;
      blocks.push_back({{blocks.size(), 1}, tensor});
      c.push_back(float(random.below(6)));
    }
    const double k = random.uniform();
    const auto channels = std::uint32_t(1 + random.below(4));
    const Ranking ranking = rank_blocks(blocks, c, k, channels);
    ASSERT_EQ(ranking.channels.size(), channels + 1);
    std::vector<int> channel_of(blocks.size(), -1);
    for (std::size_t i = 0; i <= channels; ++i)
      for (const std::uint32_t s : ranking.channels[i]) {
        ASSERT_EQ(channel_of[s], -1);
        channel_of[s] = int(i);
      }
    for (std::uint32_t a = 0; a < blocks.size(); ++a) {
      EXPECT_EQ(channel_of[a] == -1, c[a] == 0);
      for (std::uint32_t b = 0; b < blocks.size(); ++b) {
        if (blocks[a].tensor != blocks[b].tensor || c[a] == 0 || c[b] == 0) continue;
        if (channel_of[a] < channel_of[b]) EXPECT_GE(c[a], c[b]);
        if (c[a] == c[b] && a < b) EXPECT_LE(channel_of[a], channel_of[b]);
      }
    }
  }
}

TEST(Ranking, DrawnOnesAreAsManyAndDifferFromPushToPush) {
  const auto blocks = blocks_of({0, 0, 0, 0, 0, 0, 0, 0, 1, 1});
  const std::vector<float> c(10, 1);
  std::set<Order> seen;
  for (Round round = 0; round < 20; ++round) {
    const Random random(1, {Purpose::transfer, round});
    const Ranking ranking = draw_blocks(blocks, c, 0.5, 2, true, random);
    EXPECT_EQ(ranking.channels[0].size(), 5u);
    Order rest = ranking.channels[1];
    rest.insert(rest.end(), ranking.channels[2].begin(), ranking.channels[2].end());
    EXPECT_EQ(rest.size(), 5u);
    for (const std::uint32_t tensor : {0u, 1u}) {
      Order in_order;
      for (const std::uint32_t s : rest)
        if (blocks[s].tensor == tensor) in_order.push_back(s);
      if (tensor == 0) EXPECT_EQ(in_order.size(), 4u);
    }
    Order reliable = ranking.channels[0];
    std::sort(reliable.begin(), reliable.end());
    seen.insert(reliable);
    EXPECT_EQ(draw_blocks(blocks, c, 0.5, 2, true, random).channels, ranking.channels);
  }
  EXPECT_GT(seen.size(), 5u);
}

TEST(Contribution, AlphaWeighsTheHistory) {
  Contributions contributions(0.25);
  EXPECT_FLOAT_EQ(contributions.update(0, 0, 8, 4), 3);
  EXPECT_FLOAT_EQ(contributions.update(0, 0, 8, 1), 0.25f * 3 + 0.75f);
  EXPECT_FLOAT_EQ(contributions.update(0, 0, 9, 1), 0.75f) << "another block";
  EXPECT_FLOAT_EQ(contributions.update(0, 1, 8, 1), 0.75f) << "another vector";
}

TEST(Contribution, IsTheMeanOfMagnitudes) {
  EXPECT_FLOAT_EQ(mean_magnitude(std::vector<float>{-1, 2, -3}), 2);
  EXPECT_EQ(mean_magnitude(std::vector<float>{0, 0}), 0);
  EXPECT_EQ(mean_magnitude({}), 0);
  EXPECT_TRUE(std::isfinite(mean_magnitude(std::vector<float>(8, 3e38f))));
}

}  // namespace
}  // namespace longhaul::transfer::dgt
