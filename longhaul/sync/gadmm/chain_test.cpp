#include "longhaul/sync/gadmm/chain.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <gtest/gtest.h>

#include "longhaul/base/rng.h"

namespace longhaul::sync::gadmm {
namespace {

using Ranks = std::vector<Rank>;

View view_of(Ranks live) { return {.epoch = 0, .live = std::move(live)}; }

TEST(Chains, HeadsAndTailsTakeTurns) {
  const Chains chains({}, {0, 1, 2}, nullptr);
  const View all = view_of({0, 1, 2});
  EXPECT_TRUE(chains.position(0, 0, all).is_head);
  EXPECT_EQ(chains.position(0, 0, all).neighbours, (Ranks{1}));
  EXPECT_FALSE(chains.position(1, 0, all).is_head);
  EXPECT_EQ(chains.position(1, 0, all).neighbours, (Ranks{0, 2}));
  EXPECT_TRUE(chains.position(2, 7, all).is_head);
}

TEST(Chains, CloseOverAGap) {
  const Chains chains({}, {0, 1, 2, 3}, nullptr);
  const View three = view_of({0, 2, 3});
  EXPECT_FALSE(chains.position(2, 0, three).is_head);
  EXPECT_EQ(chains.position(2, 0, three).neighbours, (Ranks{0, 3}));
  EXPECT_TRUE(chains.position(3, 0, three).is_head);
  EXPECT_TRUE(chains.position(3, 0, view_of({3})).neighbours.empty());
}

// gadmm_test.cpp, invariant 9: with ten workers the strides 1, 3, 7, 9.
TEST(Chains, StridesHaveNoDivisorInCommonWithTheirNumber) {
  Ranks ten(10);
  for (Rank n = 0; n < 10; ++n) ten[n] = n;
  const Chains chains({.order = "strides", .every = 5}, ten, nullptr);
  for (const auto& [chain, stride] : std::map<Round, Rank>{{0, 1}, {1, 3}, {2, 7}, {3, 9}, {4, 1}})
    for (Rank k = 0; k < 10; ++k) EXPECT_EQ(chains.order(chain * 5 + 4)[k], k * stride % 10);
  EXPECT_TRUE(chains.is_first(5));
  EXPECT_FALSE(chains.is_first(6));
  EXPECT_FALSE(chains.is_first(0));
  EXPECT_EQ(Chains({.order = "strides", .every = 1}, {7}, nullptr).order(3), (Ranks{7}));
}

TEST(Chains, NearestTakesTheLowerRankOfTwo) {
  const std::vector<double> at = {0, 4, 1, -1};
  const LinkCost cost = [&](Rank a, Rank b) { return std::abs(at[a] - at[b]); };
  const Chains chains({.order = "nearest"}, {0, 1, 2, 3}, cost);
  EXPECT_EQ(chains.order(0), (Ranks{0, 2, 3, 1}));
  EXPECT_EQ(Chains({.order = "nearest"}, {0, 1, 2}, nullptr).order(0), (Ranks{0, 1, 2}));
}

double largest(const Ranks& chain, const LinkCost& cost) {
  double most = 0;
  for (std::size_t k = 1; k < chain.size(); ++k)
    most = std::max(most, cost(chain[k - 1], chain[k]));
  return most;
}

// Against all orders of six workers.
TEST(Chains, TheBottleneckIsAsWideAsItCanBe) {
  for (std::uint32_t seed = 0; seed < 20; ++seed) {
    Random random(seed, {.purpose = Purpose::init});
    double costs[6][6];
    for (auto& row : costs)
      for (double& one : row) one = random.uniform();
    const LinkCost cost = [&](Rank a, Rank b) { return costs[std::min(a, b)][std::max(a, b)]; };
    Ranks order = {0, 1, 2, 3, 4, 5};
    const Ranks found = Chains({.order = "bottleneck"}, order, cost).order(0);
    double least = 2;
    do least = std::min(least, largest(order, cost));
    while (std::next_permutation(order.begin(), order.end()));
    EXPECT_EQ(largest(found, cost), least);
    EXPECT_TRUE(std::is_permutation(found.begin(), found.end(), order.begin()));
  }
  EXPECT_EQ(Chains({.order = "bottleneck"}, {4}, [](Rank, Rank) { return 1; }).order(0),
            (Ranks{4}));
}

// On a line whose middle the first worker stands at: "nearest" turns back over everything.
TEST(Chains, ManyWorkersTakeTheBestOfTheNearest) {
  Ranks many(20);
  std::iota(many.begin(), many.end(), 0);
  const LinkCost cost = [](Rank a, Rank b) {
    const auto at = [](Rank rank) { return rank == 0 ? 10.0 : rank <= 10 ? rank - 1.0 : rank; };
    return std::abs(at(a) - at(b));
  };
  EXPECT_GT(largest(Chains({.order = "nearest"}, many, cost).order(0), cost), 1);
  EXPECT_EQ(largest(Chains({.order = "bottleneck"}, many, cost).order(0), cost), 1);
}

// The hub is the last worker that lives.
TEST(Chains, OfAStarAllButTheHubAreHeads) {
  const Chains star({.order = "star"}, {0, 1, 2}, nullptr);
  const View all = view_of({0, 1, 2}), two = view_of({0, 1});
  EXPECT_TRUE(star.position(1, 0, all).is_head);
  EXPECT_EQ(star.position(1, 0, all).neighbours, (Ranks{2}));
  EXPECT_FALSE(star.position(2, 0, all).is_head);
  EXPECT_EQ(star.position(2, 0, all).neighbours, (Ranks{0, 1}));
  EXPECT_FALSE(star.position(1, 0, two).is_head);
  EXPECT_TRUE(star.position(0, 0, view_of({0})).is_head);
}

TEST(Chains, RandomOnesFollowFromSeedAndNumber) {
  Ranks many(12);
  for (Rank n = 0; n < 12; ++n) many[n] = n;
  const Chains::Config config{.order = "random", .every = 3, .seed = 5};
  const Chains chains(config, many, nullptr), again(config, many, nullptr);
  EXPECT_EQ(chains.order(4), again.order(5));
  EXPECT_NE(chains.order(4), chains.order(6));
  Ranks sorted = chains.order(6);
  std::sort(sorted.begin(), sorted.end());
  EXPECT_EQ(sorted, many);
}

}  // namespace
}  // namespace longhaul::sync::gadmm
