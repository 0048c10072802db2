#include "longhaul/sim/delay_jitter.h"

#include <gtest/gtest.h>

#include <cmath>

namespace longhaul::sim {
namespace {

using namespace std::chrono_literals;

// D1: over time the deviation has mean 0 and the standard deviation asked for.
TEST(DelayJitter, D1_HasTheStandardDeviationAskedFor) {
  for (const double sigma : {0.0005, 0.005}) {
    const DelayJitter jitter(sigma, 7, 0, 1);
    double sum = 0, squares = 0;
    constexpr int kCount = 40000;
    for (int i = 0; i < kCount; ++i) {
      const double d = jitter.at(i * 11ms);
      sum += d;
      squares += d * d;
    }
    EXPECT_NEAR(sum / kCount, 0, sigma * 0.05);
    EXPECT_NEAR(std::sqrt(squares / kCount), sigma, sigma * 0.04);
  }
}

// D2: it goes steadily: nearly never does a later packet come before an earlier one.
TEST(DelayJitter, D2_FallsMoreSlowlyThanTimePasses) {
  const DelayJitter jitter(0.010, 3, 4, 5);
  int overtaken = 0;
  for (int i = 0; i < 100000; ++i) {
    const Time t = i * 5ms;
    overtaken += jitter.at(t + 1ms) - jitter.at(t) < -0.001;
  }
  EXPECT_EQ(overtaken, 0);
}

TEST(DelayJitter, EqualSeedsDriftAlikeAndOthersDoNot) {
  const DelayJitter jitter(0.01, 3, 4, 5);
  EXPECT_EQ(jitter.at(77ms), DelayJitter(0.01, 3, 4, 5).at(77ms));
  EXPECT_NE(jitter.at(77ms), DelayJitter(0.01, 4, 4, 5).at(77ms));
  EXPECT_NE(jitter.at(77ms), DelayJitter(0.01, 3, 5, 4).at(77ms));
  EXPECT_EQ(DelayJitter(0, 3, 4, 5).at(77ms), 0);
}

}  // namespace
}  // namespace longhaul::sim
