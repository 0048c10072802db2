// Plans of explicit trees, against the best there can be.
#include "longhaul/flow/forest.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>

#include "longhaul/base/rng.h"
#include "longhaul/base/testing/effort.h"
#include "longhaul/flow/bound.h"
#include "longhaul/flow/capacities.h"
#include "longhaul/flow/forest_search.h"
#include "longhaul/flow/plan_time.h"
#include "longhaul/flow/testing/draw.h"
#include "longhaul/flow/testing/wans.h"
#include "longhaul/flow/tree_packing.h"

namespace longhaul::flow {
namespace {

using longhaul::testing::kGate;
using longhaul::testing::kStride;
using testing::any_wan;
using testing::equal_sites;

constexpr double kVector = 1e6;
constexpr std::uint64_t kEvery = kGate ? 37 : kStride;  // of seeds

bool leads_to(const std::vector<std::uint32_t>& next, std::uint32_t root) {
  for (std::uint32_t site = 0; site < next.size(); ++site) {
    std::uint32_t at = site;
    for (std::size_t step = 0; step < next.size() && at != root; ++step) at = next[at];
    if (at != root || (next[site] == site) != (site == root)) return false;
  }
  return true;
}

// What the plan's trees send over each ordered pair, as a share of the vector.
std::vector<double> loads(const ForestPlan& plan, std::size_t n) {
  std::vector<double> load(n * n);
  for (const TwoTrees& trees : plan.trees)
    for (std::uint32_t site = 0; site < n; ++site) {
      if (site == trees.root) continue;
      load[site * n + trees.reduce_to[site]] += trees.share;
      load[trees.spread_from[site] * n + site] += trees.share;
    }
  return load;
}

// How long the busiest link takes for them.
double busiest(const Wan& wan, const ForestPlan& plan, double bytes) {
  const Capacities at(wan);
  const std::size_t n = at.sites;
  const std::vector<double> load = loads(plan, n);
  double longest = 0;
  for (std::size_t a = 0; a < n; ++a) {
    double out = 0, in = 0;
    for (std::size_t b = 0; b < n; ++b) {
      out += load[a * n + b];
      in += load[b * n + a];
      if (a != b) longest = std::max(longest, load[a * n + b] * bytes / at.pair(a, b));
    }
    longest = std::max({longest, out * bytes / at.up[a], in * bytes / at.down[a]});
  }
  for (const Wan::Shared& link : at.shared) {
    double sum = 0;
    for (const auto& [a, b] : link.pairs) sum += load[a * n + b];
    longest = std::max(longest, sum * bytes / link.rate);
  }
  return longest;
}

// 4 to 16 sites, in the gate up to 7, with rates and delays as they are between cities.
Wan cities(std::uint64_t seed) {
  Random random(seed, {});
  const auto rate = [&](double low, double high) {
    return bytes_per_second(low + (high - low) * random.uniform());
  };
  Wan wan;
  const std::size_t n = 4 + random.below(kGate ? 4 : 13);
  const bool thin_pairs = random.below(2) == 1, skew = random.below(2) == 1;
  for (std::size_t i = 0; i < n; ++i) {
    const double up = rate(20, 155);
    wan.sites.push_back({.name = "s", .up = up, .down = skew ? rate(20, 155) : up, .lan = {}});
  }
  for (std::uint32_t a = 0; a < n; ++a)
    for (std::uint32_t b = 0; b < n; ++b)
      if (a != b)
        wan.pairs[{a, b}] = {.rate = thin_pairs ? Rate(rate(2, 40)) : std::nullopt,
                             .delay_s = 0.005 + 0.1 * random.uniform()};
  return wan;
}

TEST(ForestPlan, F3_EqualSitesReachTheBound) {
  for (std::size_t n : {3u, 4u, 7u, kGate ? 8u : 12u, kGate ? 11u : 40u}) {
    const ForestPlan plan = plan_forest(equal_sites(n, 1e6), {kVector, kVector / 1000});
    EXPECT_NEAR(plan.busy_s, 2.0 * double(n - 1) / double(n), 1e-6) << n;
    EXPECT_EQ(plan.trees.size(), n) << "one star for each";
  }
  const ForestPlan alone = plan_forest(equal_sites(1, 1e6), {kVector, 0});
  ASSERT_EQ(alone.trees.size(), 1u);
  EXPECT_EQ(alone.trees[0].share, 1);
}

// One circle where it is as quick, but for a long way round; with a connection more at each port
// where it is not, or where all links are to be tried.
TEST(ForestPlan, F28_OneCircleWhereItIsAsQuick) {
  Wan wan = equal_sites(4, 1e6);
  const auto pairs_used = [&](ForestTask task) {
    const auto load = loads(plan_forest(wan, task), 4);
    return std::count_if(load.begin(), load.end(), [](double one) { return one > 0; });
  };
  wan.usual.delay_s = 0.002;
  EXPECT_EQ(pairs_used({kVector, kVector / 1000}), 4);
  EXPECT_EQ(pairs_used({kVector, kVector / 1000, false}), 12);
  wan.usual.delay_s = 0.1;
  EXPECT_EQ(pairs_used({kVector, kVector / 1000}), 12) << "six hops instead of two";
  wan.usual.delay_s = 0;
  wan.sites[2].up = 0.9e6;
  EXPECT_GT(pairs_used({kVector, kVector / 1000}), 4) << "a circle is as slow as its slowest";
}

// Trees, whole, with shares that add up to 1, that take the time that is claimed.
RC_GTEST_PROP(ForestPlan, F4_ThePlanKeepsWithinCapacity, ()) {
  static int turn = 0;
  if (!flow::testing::tried(turn, 12)) return;
  const Wan wan = any_wan();
  const ForestPlan plan = plan_forest(wan, {kVector, 0});
  double share = 0;
  for (const TwoTrees& trees : plan.trees) {
    share += trees.share;
    RC_ASSERT(trees.share > 0);
    RC_ASSERT(leads_to(trees.reduce_to, trees.root));
    RC_ASSERT(leads_to(trees.spread_from, trees.root));
  }
  RC_ASSERT(std::abs(share - 1) < 1e-9);
  RC_ASSERT(busiest(wan, plan, kVector) <= plan.busy_s * (1 + 1e-5) + 1e-9);
}

RC_GTEST_PROP(ForestPlan, F5_NearlyTheBestThereIs, ()) {
  static int turn = 0;
  if (!flow::testing::tried(turn, 20)) return;
  const Wan wan = any_wan();
  const double best = pack_trees(wan, {Collective::all_reduce, kVector})->seconds;
  const ForestPlan plan = search_forest(wan, {kVector, 0});
  RC_ASSERT(plan.busy_s <= best * 1.03 + 1e-9);
  RC_ASSERT(plan.floor_s <= best * (1 + 1e-5) + 1e-9);
  RC_ASSERT(plan_forest(wan, {kVector, 0}).floor_s <= best * (1 + 1e-5) + 1e-9);
}

TEST(ForestPlan, F5_NearlyTheBestBetweenCities) {
  for (std::uint64_t seed = 1; seed <= 100; seed += kEvery) {
    const Wan wan = cities(seed);
    const double bytes = 1e12;  // delays do not count
    const double best = pack_trees(wan, {Collective::all_reduce, bytes})->seconds;
    const ForestPlan plan = search_forest(wan, {bytes, 1});
    EXPECT_LE(plan.busy_s, best * 1.03) << "seed " << seed << ", sites " << wan.sites.size();
  }
}

// The time of a vector that is short beside the delays, and of one byte.
TEST(ForestPlan, F6_AShortVectorTakesShortWays) {
  for (std::uint64_t seed = 1; seed <= 30; seed += kEvery) {
    const Wan wan = cities(seed);
    double star = kUnlimited;  // there and back over the best hub
    for (std::uint32_t hub = 0; hub < wan.sites.size(); ++hub) {
      double there = 0, back = 0;
      for (std::uint32_t site = 0; site < wan.sites.size(); ++site) {
        if (site == hub) continue;
        there = std::max(there, wan.pair(site, hub).delay_s);
        back = std::max(back, wan.pair(hub, site).delay_s);
      }
      star = std::min(star, there + back);
    }
    const ForestPlan one = plan_forest(wan, {1, 1e-3});
    EXPECT_LE(one.latency_s, star + 1e-6) << seed;
    double before = 0;
    for (const double bytes : {1.0, 1e5, 1e6, 1e7, 1e8, 1e9}) {
      if (kGate && (bytes == 1e5 || bytes == 1e7)) continue;
      const ForestPlan plan = plan_forest(wan, {bytes, bytes / 400});
      EXPECT_GE(plan.seconds(), before * (1 - 0.02)) << seed << ", " << bytes << " bytes";
      before = plan.seconds();
    }
  }
}

// Five a site; where connections share links fairly no more than there is to be limited by: each
// pair, and each site's way out and way in.
TEST(ForestPlan, F7_FewTreesDo) {
  std::size_t most = 0;
  for (std::uint64_t seed = 1; seed <= 60; seed += kEvery) {
    const ForestPlan plan = plan_forest(cities(seed), {25e6, 64e3});
    most = std::max(most, plan.trees.size());
    const std::size_t sites = plan.trees[0].reduce_to.size();
    EXPECT_LE(plan.trees.size(), sites * (sites + 1)) << seed;
    EXPECT_LE(search_forest(cities(seed), {25e6, 64e3}).trees.size(), 5 * sites) << seed;
    for (std::size_t i = 1; i < plan.trees.size(); ++i)
      EXPECT_LE(plan.trees[i].share, plan.trees[i - 1].share);
  }
  RecordProperty("most_trees", int(most));
}

// The fastest trees of all are two stars, which give a connection up to nine times what another one
// of its port has. TCP gives both the same: the plan is one that it can keep.
TEST(ForestPlan, F29_ConnectionsThatShareFairlyCanKeepThePlan) {
  Wan wan;
  for (const double mbps : {155, 120, 100, 80, 60, 40, 30, 20})
    wan.sites.push_back(
        {.name = "s", .up = bytes_per_second(mbps), .down = bytes_per_second(mbps), .lan = {}});
  wan.usual.delay_s = 0.03;
  const ForestTask task{25e6, 64e3};
  const auto time = [&](const ForestPlan& plan) {
    return time_of(plan.trees, wan, Capacities(wan), task);
  };
  const PlanTime alone = time(search_forest(wan, task)), plan = time(plan_forest(wan, task));
  EXPECT_GT(alone.fair_s, 1.5 * alone.busy_s);
  EXPECT_LE(plan.busy_s, 1.01 * alone.busy_s);
  EXPECT_LE(plan.fair_s, 1.05 * plan.busy_s);
}

TEST(ForestPlan, F29_NoPlanIsTakenThatTakesLongerThanTheFirstFound) {
  for (std::uint64_t seed = 1; seed <= 60; seed += kEvery) {
    const Wan wan = cities(seed);
    const ForestTask task{25e6, 64e3, false};
    const auto time = [&](const ForestPlan& plan) {
      return time_of(plan.trees, wan, Capacities(wan), task).seconds();
    };
    EXPECT_LE(time(plan_forest(wan, task)), time(search_forest(wan, task))) << seed;
  }
}

// Sites whose pairs alone limit, from 20 to 400 Mbit/s: every link is needed all the time, also a
// thin one that comes last in all of its trees.
Wan pairs_alone(std::uint64_t seed) {
  Random random(seed, {});
  Wan wan;
  wan.sites.resize(10);
  for (std::uint32_t a = 0; a < 10; ++a)
    for (std::uint32_t b = 0; b < 10; ++b)
      if (a != b)
        wan.pairs[{a, b}] = {.rate = bytes_per_second(20 * std::pow(20, random.uniform())),
                             .delay_s = 0.02 + 0.1 * random.uniform()};
  return wan;
}

// The fastest trees of all keep thin links waiting for what comes late to them.
TEST(ForestPlan, F34_LinksThatBeginLateGetLess) {
  const ForestTask task{250e6, 160e3};
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    const Wan wan = pairs_alone(seed);
    const double bound = lower_bound(wan, {Collective::all_reduce, task.bytes}).seconds;
    const auto seconds = [&](const ForestPlan& plan) {
      return time_of(plan.trees, wan, Capacities(wan), task).seconds();
    };
    EXPECT_GT(seconds(search_forest(wan, task)), 1.05 * bound) << seed;
    EXPECT_LT(seconds(plan_forest(wan, task)), 1.04 * bound) << seed;
  }
}

TEST(ForestPlan, F8_TheSameNumbersGiveTheSamePlan) {
  for (std::uint64_t seed = 1; seed <= 20; seed += kEvery) {
    const ForestPlan one = plan_forest(cities(seed), {25e6, 64e3});
    const ForestPlan two = plan_forest(cities(seed), {25e6, 64e3});
    ASSERT_EQ(one.trees.size(), two.trees.size());
    for (std::size_t i = 0; i < one.trees.size(); ++i) {
      EXPECT_EQ(one.trees[i].reduce_to, two.trees[i].reduce_to);
      EXPECT_EQ(one.trees[i].spread_from, two.trees[i].spread_from);
      EXPECT_EQ(one.trees[i].share, two.trees[i].share);
    }
  }
}

TEST(ForestPlan, F9_WhatIsUnlimitedDoesNotBind) {
  Wan wan = equal_sites(5, 1e6);
  for (Wan::Site& site : wan.sites) site.up = site.down = std::nullopt;
  EXPECT_EQ(plan_forest(wan, {kVector, 0}).busy_s, 0);
  wan.sites[2].up = 1e6;  // a leaf: everything else is for nothing
  EXPECT_NEAR(plan_forest(wan, {kVector, 0}).busy_s, 1, 1e-3);
}

TEST(ForestPlan, F10_PairsFill) {
  Wan pairs = equal_sites(6, 1e9);
  pairs.usual.rate = 1e6;
  EXPECT_NEAR(plan_forest(pairs, {kVector, 0}).busy_s, 2.0 / 6, 1e-3);
}

// Beyond what trees.h does.
TEST(ForestPlan, F11_ManySites) {
  for (const std::size_t n : {kGate ? 65u : 70u, 150u}) {
    if (kStride > 1 && n > 70) continue;
    Wan wan = equal_sites(n, 1e6);
    for (std::size_t i = 0; i < n; ++i)
      wan.sites[i].up = wan.sites[i].down = 1e6 * (1 + double(i % 7));
    const ForestPlan plan = plan_forest(wan, {kVector, 10});
    EXPECT_GT(plan.floor_s, 0);
    EXPECT_LE(plan.busy_s, plan.floor_s * 1.03) << n;
  }
}

}  // namespace
}  // namespace longhaul::flow
