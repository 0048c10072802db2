// Bounds that know delays, by hand; that nothing simulated is below them: tests/bound_test.cpp.
#include "longhaul/flow/bound.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "longhaul/flow/testing/wans.h"

namespace longhaul::flow {
namespace {

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
