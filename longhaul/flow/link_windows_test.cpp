#include "longhaul/flow/link_windows.h"

#include <gtest/gtest.h>

#include "longhaul/flow/plan_time.h"
#include "longhaul/flow/testing/wans.h"

namespace longhaul::flow {
namespace {

TwoTrees chain(std::vector<std::uint32_t> up, std::vector<std::uint32_t> down, double share) {
  TwoTrees trees{up.back(), std::vector<std::uint32_t>(up.size()), {}, share};
  trees.spread_from = trees.reduce_to;
  for (std::size_t i = 0; i + 1 < up.size(); ++i) trees.reduce_to[up[i]] = up[i + 1];
  for (std::size_t i = 0; i + 1 < down.size(); ++i) trees.spread_from[down[i + 1]] = down[i];
  trees.reduce_to[up.back()] = trees.spread_from[down.front()] = up.back();
  return trees;
}

// Three sites, each pair 100 bytes a second and 1 s.
Wan three_sites() {
  Wan wan;
  wan.sites.resize(3);
  wan.usual = {.rate = 100, .delay_s = 1};
  return wan;
}

PieceTimes without_pieces(const Wan& wan, double bytes) {
  std::vector<double> rates(wan.sites.size() * wan.sites.size(), 1);
  for (std::size_t site = 0; site < wan.sites.size(); ++site)
    rates[site * wan.sites.size() + site] = 0;
  return {bytes, piece_ways(wan, rates, 0)};
}

// 0 -> 1 -> 2 up, 2 -> 1 -> 0 down, four links one after the other: each works for 10 s, and three
// delays lie before or behind it beside its own.
TEST(LinkWindows, AChainIsThroughAfterItsBytesAndAllOfItsWay) {
  const Wan wan = three_sites();
  const std::vector<TwoTrees> plan = {chain({0, 1, 2}, {2, 1, 0}, 1)};
  EXPECT_DOUBLE_EQ(time_through(plan, Capacities(wan), without_pieces(wan, 1000)), 10 + 4);
}

// Two chains, of which one begins on each link where the other one ends: the links always work but
// for their own delay.
TEST(LinkWindows, WhatComesEarlyAndWhatGoesLastFillALink) {
  const Wan wan = three_sites();
  // (0, 1) carries the first hop of one and the last of the other.
  const std::vector<TwoTrees> plan = {chain({0, 1, 2}, {2, 1, 0}, 0.5),
                                      chain({1, 2, 0}, {0, 2, 1}, 0.5)};
  const double seconds = time_through(plan, Capacities(wan), without_pieces(wan, 1000));
  EXPECT_LT(seconds, 10 + 4);
  EXPECT_GE(seconds, 5 + 4);
}

// Of four equal sites no star is better than another, and each has as much.
TEST(LinkWindows, SharesGoToTreesThatAreThroughSoonest) {
  Wan wan = testing::equal_sites(4, 100);
  wan.usual.delay_s = 0.5;
  std::vector<TwoTrees> stars;
  for (std::uint32_t root = 0; root < 4; ++root) {
    const std::vector<std::uint32_t> leaves(4, root);
    stars.push_back({root, leaves, leaves, 0});
  }
  const PieceTimes times = without_pieces(wan, 1000);
  const Capacities at(wan);
  const std::vector<TwoTrees> shared = soonest_shares(stars, at, times, 0);
  ASSERT_EQ(shared.size(), 4u);
  for (const TwoTrees& one : shared) EXPECT_NEAR(one.share, 0.25, 1e-6);
  // Every link has 1.5 vectors, the first parts at once; the last of them have one delay to go.
  EXPECT_NEAR(time_through(shared, at, times), 15 + 0.5, 1e-6);
}

}  // namespace
}  // namespace longhaul::flow
