// Bounds of networks that can be solved by hand, and what holds for all.
//
// Invariants:
//   B1 n equal sites: 2 (n-1) M / (n B)
//   B2 a star with one slow site: M / its rate
//   B3 two clusters: M / capacity across, one way
//   B4 beyond 16 sites shared links still count
//   B5 unlimited rates do not bind
//   B6 connections limit a pair; a trace counts at its highest rate
//   B7 more capacity never raises a bound
//   B8 times scale with bytes over rates
//   B9 without delays only bandwidth counts
//   B10 the last byte has the longest path before it
//   B11 a pair counts from when its bytes can be of use
//   B12 bytes that cannot arrive are not sent
//   B13 a varying delay counts as none
//   B14 delays never lower a bound
//   B15 no simulated run is faster, on random networks: Perf.B15_* in run/perf_test.cpp
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

// Bounds that know delays, by hand; that nothing simulated is below them: tests/bound_test.cpp.

constexpr double kDelayedBytes = 1e6;
const Task kAllReduce{Collective::all_reduce, kDelayedBytes};

Bound bound_of(const Wan& wan, const Task& task = kAllReduce) { return lower_bound(wan, task); }

TEST(DelayBound, B9_WithoutDelaysBandwidthIsAll) {
  const Bound bound = bound_of(testing::equal_sites(4, 1e6));
  EXPECT_EQ(bound.seconds, bound.bandwidth_s);
  for (const Limit& limit : bound.limits) EXPECT_NE(limit.what, Limit::What::delays);
}

// A thin site's last byte leaves after a second, and then has the longest shortest path before it:
// s1 to s3 directly takes 0.9 s, over s2 0.5.
TEST(DelayBound, B10_TheLastByteHasTheLongestPathBeforeIt) {
  Wan wan = testing::equal_sites(4, 1e8);
  wan.sites[1].up = 1e6;
  wan.usual.delay_s = 0.1;
  wan.pairs[{1, 3}].delay_s = 0.9;
  wan.pairs[{2, 3}].delay_s = 0.4;
  wan.pairs[{0, 3}].delay_s = 0.6;
  const Bound bound = bound_of(wan);
  EXPECT_DOUBLE_EQ(bound.bandwidth_s, 1);
  EXPECT_DOUBLE_EQ(bound.seconds, 1.5);
  EXPECT_EQ(to_text(bound.limits.front(), wan), "a vector from s1 to s3, with its delay");
  EXPECT_DOUBLE_EQ(bound_of(wan, {Collective::broadcast, kDelayedBytes, 0}).seconds, 0.01 + 0.5);
}

// 1 MB from s0 to s1: 0.5 MB/s straight, delay 0; over s2 another 0.5 MB/s, 1 s later.
TEST(DelayBound, B11_APairCountsFromWhenItsBytesCanBeOfUse) {
  Wan wan;
  wan.sites.resize(3);
  for (std::uint32_t a = 0; a < 3; ++a)
    for (std::uint32_t b = 0; b < 3; ++b)
      if (a != b) wan.pairs[{a, b}] = {.rate = 1e9, .delay_s = 0};
  wan.pairs[{0, 1}].rate = 0.5e6;
  wan.pairs[{0, 2}] = {.rate = 0.5e6, .delay_s = 1};
  const Bound bound = bound_of(wan, {Collective::broadcast, kDelayedBytes, 0});
  EXPECT_DOUBLE_EQ(bound.bandwidth_s, 1);
  EXPECT_DOUBLE_EQ(bound.seconds, 1.5) << "0.5 MB in the first second, then the rest over both";
}

// Of four equal sites no uplink is of use in the last moments, in which nothing can arrive.
TEST(DelayBound, B12_WhatCannotArriveIsNotSent) {
  Wan wan = testing::equal_sites(4, 1e6);
  wan.usual.delay_s = 0.2;
  const Bound bound = bound_of(wan);
  EXPECT_DOUBLE_EQ(bound.bandwidth_s, 1.5);
  EXPECT_NEAR(bound.seconds, 1.7, 1e-9);
  EXPECT_EQ(to_text(bound.limits.front(), wan), "all traffic, sent early enough to arrive");
}

TEST(DelayBound, B13_ADelayThatVariesCountsAsNone) {
  Wan wan = testing::equal_sites(3, 1e6);
  wan.usual.delay_s = 0.2;
  wan.usual.jitter_s = 0.1;
  EXPECT_EQ(bound_of(wan).seconds, bound_of(wan).bandwidth_s);
}

RC_GTEST_PROP(DelayBound, B14_DelaysNeverLowerItAndLongerOnesRaiseIt, ()) {
  Wan wan = testing::any_wan();
  const double without = bound_of(wan).seconds;
  double before = without;
  for (const double delay : {0.1, 1., 10.}) {
    wan.usual.delay_s = delay;
    for (auto& [sites, pair] : wan.pairs) pair.delay_s = delay;
    const Bound bound = bound_of(wan);
    RC_ASSERT(bound.bandwidth_s == without);
    RC_ASSERT(bound.seconds >= before * (1 - 1e-9));
    RC_ASSERT(bound.seconds >= delay);
    before = bound.seconds;
  }
}

}  // namespace
}  // namespace longhaul::flow
