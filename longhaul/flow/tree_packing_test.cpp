// Plans of trees on networks that can be solved by hand, and against the bounds on all.
//
// Invariants (B1: bound_test.cpp):
//   T1 n equal sites reach B1
//   T2 a slow site is a leaf
//   T3 clusters cross a backbone once each way
//   T4 chains and stars, by hand
//   T5 no plan beats the bound
//   T6 a plan keeps within all capacities
//   T7 more capacity never slows a plan; times scale
//   T8 too many sites are distinguished from unlimited ones
//   T9 a broadcast over pairs alone takes its narrowest cut
#include "longhaul/flow/tree_packing.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "longhaul/flow/capacities.h"
#include "longhaul/flow/testing/draw.h"
#include "longhaul/flow/testing/wans.h"

namespace longhaul::flow {
namespace {

using testing::any_wan;
using testing::equal_sites;
using testing::raised;
using testing::scaled;

constexpr double kLoad = 1e6;

double all_reduce(const Wan& wan) {
  const auto trees = pack_trees(wan, {Collective::all_reduce, kLoad});
  return trees ? trees->seconds : -1;
}
double broadcast(const Wan& wan, std::uint32_t root) {
  const auto trees = pack_trees(wan, {Collective::broadcast, kLoad, root});
  return trees ? trees->seconds : -1;
}

TEST(TreePacking, T1_EqualSitesReachTheBound) {
  for (std::size_t n : {2u, 3u, 4u, 7u, 12u}) {
    EXPECT_NEAR(all_reduce(equal_sites(n, 1e6)), 2.0 * double(n - 1) / double(n), 1e-6) << n;
    EXPECT_NEAR(broadcast(equal_sites(n, 1e6), 0), 1, 1e-6) << n;
    Wan pairs = equal_sites(n, 1e6);  // the same of pairs alone: a vector's n - 1 parts each way
    for (Wan::Site& site : pairs.sites) site.up = site.down = std::nullopt;
    pairs.usual.rate = 1e6;
    EXPECT_NEAR(all_reduce(pairs), 2.0 / double(n), 1e-6) << n;
    EXPECT_NEAR(broadcast(pairs, 0), 1 / double(n - 1), 1e-6) << n;
  }
  EXPECT_EQ(all_reduce(equal_sites(1, 1e6)), 0);
}

// A thin site is a leaf of all trees: it sends a vector and gets one, and the others have time.
TEST(TreePacking, T2_AThinSiteIsALeaf) {
  Wan wan = equal_sites(5, 1e6);
  wan.sites[3].up = wan.sites[3].down = 1e5;
  EXPECT_NEAR(all_reduce(wan), 10, 1e-5);
  EXPECT_NEAR(broadcast(wan, 3), 10, 1e-5);
  EXPECT_NEAR(broadcast(wan, 0), 10, 1e-5);
}

TEST(TreePacking, T3_TwoClustersCrossTheBackboneOnce) {
  Wan wan = equal_sites(6, 1e6);
  for (const bool back : {false, true}) {
    Wan::Shared link{"backbone", 1e5, {}};
    for (std::uint32_t a = 0; a < 3; ++a)
      for (std::uint32_t b = 3; b < 6; ++b)
        link.pairs.push_back(back ? SitePair{b, a} : SitePair{a, b});
    wan.shared.push_back(link);
  }
  // Sums of one side go over, the total comes back: a vector each way.
  EXPECT_NEAR(all_reduce(wan), 10, 1e-5);
  EXPECT_NEAR(broadcast(wan, 4), 10, 1e-5);
}

// Only 0 > 1 and 1 > 2 carry anything: a chain. And a hub that all must pass both ways.
TEST(TreePacking, T4_ChainsAndStars) {
  Wan chain = equal_sites(3, 1e6);
  chain.usual.rate = 1;  // a byte a second
  chain.pairs[{0, 1}].rate = 5e5;
  chain.pairs[{1, 2}].rate = 2e5;
  EXPECT_NEAR(broadcast(chain, 0), 5, 1e-4);
  Wan star = equal_sites(4, 1e6);
  star.usual.rate = 1;
  for (std::uint32_t leaf = 1; leaf < 4; ++leaf) {
    star.pairs[{0, leaf}].rate = std::nullopt;
    star.pairs[{leaf, 0}].rate = std::nullopt;
  }
  // The hub gets three vectors and sends three.
  EXPECT_NEAR(all_reduce(star), 3, 1e-4);
  EXPECT_NEAR(broadcast(star, 0), 3, 1e-4);
  EXPECT_NEAR(broadcast(star, 1), 2, 1e-4);  // two copies leave the hub
}

RC_GTEST_PROP(TreePacking, T5_NoPlanBeatsTheBound, ()) {
  static int turn = 0;
  if (!flow::testing::tried(turn, 3)) return;
  const Wan wan = any_wan();
  const Task task = {*rc::gen::element(Collective::all_reduce, Collective::broadcast), kLoad,
                     *rc::gen::inRange<std::uint32_t>(0, std::uint32_t(wan.sites.size()))};
  const double bound = lower_bound(wan, task).seconds;
  const auto trees = pack_trees(wan, task);
  RC_ASSERT(trees);
  RC_ASSERT(bound <= trees->seconds * (1 + 1e-6));
}

// Edmonds: where only pairs limit, a broadcast is as quick as its thinnest cut lets it be.
RC_GTEST_PROP(TreePacking, T9_ABroadcastOverPairsReachesItsThinnestCut, ()) {
  Wan wan = any_wan();
  for (Wan::Site& site : wan.sites) site.up = site.down = std::nullopt;
  wan.shared.clear();
  const Task task = {Collective::broadcast, kLoad, 0};
  double cut = 0;
  for (const Limit& limit : lower_bound(wan, task).limits)
    if (limit.what == Limit::What::cut) cut = limit.seconds;
  const auto trees = pack_trees(wan, task);
  RC_ASSERT(trees);
  RC_ASSERT(std::abs(trees->seconds - cut) <= cut * 2e-6);
}

// The plan's own traffic keeps every capacity and does the whole work in the time it claims.
RC_GTEST_PROP(TreePacking, T6_ThePlanKeepsWithinCapacity, ()) {
  const Wan wan = any_wan();
  const auto trees = pack_trees(wan, {Collective::all_reduce, kLoad});
  RC_ASSERT(trees);
  if (trees->seconds == 0) return;
  const Capacities at(wan);
  const std::size_t n = at.sites;
  std::vector<double> out(n), in(n);
  double share = 0, sent = 0;
  for (std::size_t a = 0; a < n; ++a) {
    share += trees->share[a];
    for (std::size_t b = 0; b < n; ++b) {
      const double rate = trees->reduce[a * n + b] + trees->spread[a * n + b];
      RC_ASSERT(rate <= at.pair(a, b) * (1 + 1e-6) + 1e-3);
      out[a] += rate;
      in[b] += rate;
      sent += rate;
    }
  }
  for (std::size_t a = 0; a < n; ++a) {
    RC_ASSERT(out[a] <= at.up[a] * (1 + 1e-6) + 1e-3);
    RC_ASSERT(in[a] <= at.down[a] * (1 + 1e-6) + 1e-3);
  }
  RC_ASSERT(std::abs(share - 1) < 1e-6);
  RC_ASSERT(sent * trees->seconds >= 2 * double(n - 1) * kLoad * (1 - 1e-5));
}

RC_GTEST_PROP(TreePacking, T7_MoreCapacityNeverSlowsAndTimesScale, ()) {
  static int turn = 0;
  if (!flow::testing::tried(turn, 4)) return;
  const Wan wan = any_wan();
  const double once = all_reduce(wan);
  RC_ASSERT(all_reduce(raised(wan)) <= once * (1 + 1e-5));
  RC_ASSERT(std::abs(all_reduce(scaled(wan, 4)) * 4 - once) <= once * 1e-5);
}

TEST(TreePacking, T8_TooManySitesAreToldFromFastOnes) {
  EXPECT_FALSE(pack_trees(equal_sites(kMaxSitesForTrees + 1, 1e6), {Collective::all_reduce, 1}));
  Wan wan = equal_sites(3, 1e6);
  for (Wan::Site& site : wan.sites) site.up = site.down = std::nullopt;
  const auto trees = pack_trees(wan, {Collective::all_reduce, kLoad});
  ASSERT_TRUE(trees);
  EXPECT_EQ(trees->seconds, 0);
}

}  // namespace
}  // namespace longhaul::flow
