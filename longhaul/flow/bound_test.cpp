// Bounds of networks that can be solved by hand, and what holds for all.
#include "longhaul/flow/bound.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "longhaul/base/testing/effort.h"
#include "longhaul/flow/testing/wans.h"

namespace longhaul::flow {
namespace {

using testing::any_wan;
using testing::equal_sites;
using testing::raised;
using testing::scaled;
using What = Limit::What;

constexpr double kBytes = 1e6;

double longest(const Bound& bound, What what) {
  for (const Limit& limit : bound.limits)
    if (limit.what == what) return limit.seconds;
  return 0;
}

TEST(Bound, B1_EqualSitesNeedAllUplinks) {
  for (std::size_t n : {2u, 3u, 5u, 16u, longhaul::testing::kGate ? 18u : 20u}) {
    const Bound bound = lower_bound(equal_sites(n, 1e6), {Collective::all_reduce, kBytes});
    EXPECT_NEAR(bound.seconds, 2.0 * double(n - 1) / double(n), 1e-12) << n;
    EXPECT_EQ(bound.limits.front().what, n == 2 ? What::uplink : What::all_uplinks) << n;
  }
  const Bound alone = lower_bound(equal_sites(1, 1e6), {Collective::all_reduce, kBytes});
  EXPECT_EQ(alone.seconds, 0);
  EXPECT_TRUE(alone.limits.empty());
}

TEST(Bound, B2_AThinSiteSendsAndGetsAVector) {
  Wan wan = equal_sites(5, 1e6);
  wan.sites[3].up = 1e5;
  Bound bound = lower_bound(wan, {Collective::all_reduce, kBytes});
  EXPECT_DOUBLE_EQ(bound.seconds, 10);
  EXPECT_EQ(to_text(bound.limits.front(), wan), "the uplink of s3");
  // A broadcast does not need it, unless it has the vector: then 4 vectors from 4.1 MB/s.
  bound = lower_bound(wan, {Collective::broadcast, kBytes, 0});
  EXPECT_DOUBLE_EQ(bound.seconds, 1);
  EXPECT_DOUBLE_EQ(longest(bound, What::all_uplinks), 4 / 4.1);
  EXPECT_DOUBLE_EQ(lower_bound(wan, {Collective::broadcast, kBytes, 3}).seconds, 10);
  wan.sites[3].down = 2e4;
  bound = lower_bound(wan, {Collective::broadcast, kBytes, 0});
  EXPECT_DOUBLE_EQ(bound.seconds, 50);
  EXPECT_EQ(to_text(bound.limits.front(), wan), "the downlink of s3");
}

// Two clusters whose four pairs across have little each: a cut that no single site shows.
TEST(Bound, B3_AThinCutBinds) {
  Wan wan = equal_sites(4, 1e6);
  for (const SitePair& way : {SitePair{0, 2}, {0, 3}, {1, 2}, {1, 3}}) wan.pairs[way].rate = 5e4;
  Bound bound = lower_bound(wan, {Collective::all_reduce, kBytes});
  EXPECT_DOUBLE_EQ(bound.seconds, 5);  // 1 MB through 4 x 50 kB/s, one way only
  EXPECT_EQ(bound.limits.front().what, What::cut);
  EXPECT_EQ(to_text(bound.limits.front(), wan), "the cut from s0, s1 to the others");
  EXPECT_DOUBLE_EQ(lower_bound(wan, {Collective::broadcast, kBytes, 1}).seconds, 5);
  EXPECT_DOUBLE_EQ(lower_bound(wan, {Collective::broadcast, kBytes, 2}).seconds, 1);
  wan.pairs.clear();  // and the same as a backbone
  wan.shared.push_back({"backbone", 2e5, {{0, 2}, {0, 3}, {1, 2}, {1, 3}}});
  bound = lower_bound(wan, {Collective::all_reduce, kBytes});
  EXPECT_DOUBLE_EQ(bound.seconds, 5);
  EXPECT_EQ(to_text(bound.limits.front(), wan), "the cut from s0, s1 to the others");
}

TEST(Bound, B4_WithManySitesSharedLinksStillCount) {
  Wan wan = equal_sites(20, 1e6);
  Wan::Shared link{"backbone", 1e5, {}};
  for (std::uint32_t a = 0; a < 10; ++a)
    for (std::uint32_t b = 10; b < 20; ++b) link.pairs.push_back({a, b});
  wan.shared.push_back(link);
  EXPECT_DOUBLE_EQ(lower_bound(wan, {Collective::all_reduce, kBytes}).seconds, 10);
}

TEST(Bound, B5_NothingUnlimitedBinds) {
  Wan wan = equal_sites(3, 1e6);
  for (Wan::Site& site : wan.sites) site.up = site.down = std::nullopt;
  EXPECT_EQ(lower_bound(wan, {Collective::all_reduce, kBytes}).seconds, 0);
  wan.usual.rate = 2e5;  // each site has two pairs each way
  EXPECT_NEAR(lower_bound(wan, {Collective::all_reduce, kBytes}).seconds, 4e6 / (6 * 2e5), 1e-12);
}

// Connections of a pair are as fast as they are together.
TEST(Bound, B6_ConnectionsLimitAPair) {
  Wan wan = equal_sites(2, 1e6);
  wan.usual.flow = 1e5;
  EXPECT_DOUBLE_EQ(lower_bound(wan, {Collective::all_reduce, kBytes}).seconds, 10);
  wan.streams = 4;
  EXPECT_DOUBLE_EQ(lower_bound(wan, {Collective::all_reduce, kBytes}).seconds, 2.5);
}

Task any_task(const Wan& wan) {
  return {*rc::gen::element(Collective::all_reduce, Collective::broadcast), kBytes,
          *rc::gen::inRange<std::uint32_t>(0, std::uint32_t(wan.sites.size()))};
}

TEST(Bound, B6_WhatChangesCountsAtItsHighest) {
  Wan wan = equal_sites(3, 1e6);
  for (std::uint32_t site = 0; site < 3; ++site)
    for (const Traced::What what : {Traced::What::up, Traced::What::down})
      wan.traces.push_back({what, site, 0, {.at = {0, 5}, .values = {4e6, 1e3}}});
  const Bound plain = lower_bound(equal_sites(3, 4e6), {Collective::all_reduce, kBytes});
  EXPECT_DOUBLE_EQ(lower_bound(wan, {Collective::all_reduce, kBytes}).seconds, plain.seconds);
}

RC_GTEST_PROP(Bound, B7_MoreCapacityNeverRaisesIt, ()) {
  const Wan wan = any_wan();
  const Task task = any_task(wan);
  RC_ASSERT(lower_bound(raised(wan), task).seconds <= lower_bound(wan, task).seconds * (1 + 1e-12));
  // And uplinks alone say no less than the least that they can.
  double out = 0;
  for (const Wan::Site& site : wan.sites)
    out += site.up.value_or(std::numeric_limits<double>::infinity());
  const double vectors = double(wan.sites.size() - 1) * (task.op == Collective::all_reduce ? 2 : 1);
  RC_ASSERT(longest(lower_bound(wan, task), What::all_uplinks) >=
            vectors * kBytes / out * (1 - 1e-12));
}

RC_GTEST_PROP(Bound, B8_ScalesWithBytesOverRates, ()) {
  const Wan wan = any_wan();
  Task task = any_task(wan);
  const double once = lower_bound(wan, task).seconds;
  const double faster = lower_bound(scaled(wan, 4), task).seconds;
  task.bytes *= 8;
  const double larger = lower_bound(wan, task).seconds;
  RC_ASSERT(std::abs(faster * 4 - once) <= once * 1e-12);
  RC_ASSERT(std::abs(larger - 8 * once) <= once * 1e-11);
}

}  // namespace
}  // namespace longhaul::flow
