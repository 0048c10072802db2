#include "longhaul/sync/round_times.h"

#include <gtest/gtest.h>

namespace longhaul::sync {
namespace {

using namespace std::chrono_literals;

TEST(RoundTimes, ThreeRoundsMakeAMedianAndTheLastFifteenAreKept) {
  RoundTimes times;
  times.add(1s);
  times.add(9s);
  EXPECT_EQ(times.medians(2), std::nullopt);
  times.add(3s);
  EXPECT_EQ(times.medians(2), Time(6s));
  for (int i = 0; i < 8; ++i) times.add(20s);
  EXPECT_EQ(times.medians(1), Time(20s));
  for (int i = 0; i < 15; ++i) times.add(5s);
  EXPECT_EQ(times.medians(1), Time(5s));
}

// Rounds of no time have a deadline all the same.
TEST(RoundTimes, AMedianCountsAsAMillisecondAtLeast) {
  RoundTimes times;
  for (int i = 0; i < 3; ++i) times.add(Time{0});
  EXPECT_EQ(times.medians(5), Time(5ms));
}

}  // namespace
}  // namespace longhaul::sync
