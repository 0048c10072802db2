#include "longhaul/sync/gaia/threshold.h"

#include <gtest/gtest.h>

namespace longhaul::sync::gaia {
namespace {

Config with_schedule(std::string name, double T0) {
  Config config{.significance = T0, .threshold = std::move(name)};
  return config;
}

// gaia_test.cpp, invariant 9
TEST(GaiaThreshold, InvSqrtFallsWithTheRootOfTheClock) {
  Threshold threshold(with_schedule("inv_sqrt", 0.04));
  EXPECT_DOUBLE_EQ(threshold.next(1, 0), 0.04);
  EXPECT_DOUBLE_EQ(threshold.next(4, 0), 0.02);
  EXPECT_DOUBLE_EQ(threshold.next(16, 0), 0.01);
}

TEST(GaiaThreshold, RateFollowsTheLearningRate) {
  Threshold threshold(with_schedule("rate", 0.04),
                      [](std::uint64_t clock) { return clock < 3 ? 1 : 0.1; });
  EXPECT_DOUBLE_EQ(threshold.next(2, 0), 0.04);
  EXPECT_DOUBLE_EQ(threshold.next(3, 0), 0.004);
  EXPECT_DOUBLE_EQ(Threshold(with_schedule("rate", 0.04)).next(3, 0), 0.04);
}

TEST(GaiaThreshold, ConstStaysAndListGoesThroughItsValues) {
  Threshold constant(with_schedule("const", 0.3));
  EXPECT_DOUBLE_EQ(constant.next(1, 0), 0.3);
  EXPECT_DOUBLE_EQ(constant.next(1000000, 0), 0.3);
  Config config = with_schedule("list", 0);
  config.list = {0.5, 0.25, 0.125};
  config.list_every = 10;
  Threshold list(config);
  EXPECT_DOUBLE_EQ(list.next(1, 0), 0.5);
  EXPECT_DOUBLE_EQ(list.next(10, 0), 0.5);
  EXPECT_DOUBLE_EQ(list.next(11, 0), 0.25);
  EXPECT_DOUBLE_EQ(list.next(21, 0), 0.125);
  EXPECT_DOUBLE_EQ(list.next(1000, 0), 0.125);
}

// gaia_test.cpp, invariant 13
TEST(GaiaThreshold, RampIsLinearAndEndsAtT1) {
  Config config = with_schedule("ramp", 0.25);
  config.max_significance = 0.75;
  config.ramp_clocks = 4;
  Threshold threshold(config);
  EXPECT_DOUBLE_EQ(threshold.next(1, 0), 0.375);
  EXPECT_DOUBLE_EQ(threshold.next(4, 0), 0.75);
  EXPECT_DOUBLE_EQ(threshold.next(9, 0), 0.75);
}

TEST(GaiaThreshold, BandwidthRaisesTWhileTooMuchIsSent) {
  Config config = with_schedule("bandwidth", 0.01);
  config.max_significance = 0.022;
  config.limit_mbps = 8;  // 1e6 bytes/s
  Threshold threshold(config);
  EXPECT_DOUBLE_EQ(threshold.next(1, 0), 0.01);
  EXPECT_DOUBLE_EQ(threshold.next(2, 1.2e6), 0.015);
  EXPECT_DOUBLE_EQ(threshold.next(3, 1.05e6), 0.015);
  EXPECT_DOUBLE_EQ(threshold.next(4, 0.95e6), 0.015);
  EXPECT_DOUBLE_EQ(threshold.next(5, 1.2e6), 0.02);
  EXPECT_DOUBLE_EQ(threshold.next(6, 1.2e6), 0.022);  // T1
  Archive save;
  threshold.state(save);
  const Buffer bytes = save.take();
  Threshold again(config);
  Archive load(bytes);
  again.state(load);
  EXPECT_DOUBLE_EQ(again.next(7, 0.8e6), 0.017);
}

TEST(GaiaThreshold, FlushClocksSendAll) {
  Config config = with_schedule("const", 0.3);
  config.flush_every = 3;
  Threshold threshold(config);
  for (std::uint64_t clock = 1; clock < 9; ++clock) {
    EXPECT_EQ(threshold.flushes(clock), clock % 3 == 0) << clock;
    EXPECT_DOUBLE_EQ(threshold.next(clock, 0), clock % 3 == 0 ? 0 : 0.3) << clock;
  }
}

}  // namespace
}  // namespace longhaul::sync::gaia
