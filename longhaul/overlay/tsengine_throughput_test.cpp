#include "longhaul/overlay/tsengine_throughput.h"

#include <gtest/gtest.h>

namespace longhaul::overlay::tsengine {
namespace {

using namespace std::chrono_literals;

TEST(TsEngineThroughput, TS_10_HalfTheRateOfALinkIsHalfTheValue) {
  Throughput learned(0.5, 5);
  learned.learn(0, 1, 1'000'000, 100ms, 0);
  learned.learn(0, 2, 1'000'000, 200ms, 0);
  EXPECT_DOUBLE_EQ(*learned.of(0, 1, 0), 1e7);
  EXPECT_DOUBLE_EQ(*learned.of(0, 2, 0), 0.5e7);
  EXPECT_FALSE(learned.of(1, 0, 0)) << "the way back is another link";
  learned.learn(0, 1, 1'000'000, 200ms, 1);
  EXPECT_DOUBLE_EQ(*learned.of(0, 1, 1), 0.75e7) << "half of each";
  EXPECT_EQ(learned.size(), 2u);
}

TEST(TsEngineThroughput, WhatIsOldIsForgottenAndFailuresCountAsNothing) {
  Throughput learned(0.5, 5);
  learned.learn(0, 1, 1000, 1s, 3);
  EXPECT_TRUE(learned.of(0, 1, 8));
  EXPECT_FALSE(learned.of(0, 1, 9));
  learned.failed(0, 1, 4);
  EXPECT_EQ(learned.of(0, 1, 9), 0.0);
  learned.forget(9);
  EXPECT_EQ(learned.size(), 1u);
  learned.forget(10);
  EXPECT_EQ(learned.size(), 0u);
}

}  // namespace
}  // namespace longhaul::overlay::tsengine
