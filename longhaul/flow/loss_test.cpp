#include "longhaul/flow/loss.h"

#include <gtest/gtest.h>

#include <cmath>

#include "longhaul/base/rng.h"
#include "longhaul/base/testing/effort.h"

namespace longhaul::flow {
namespace {

using longhaul::testing::kGate;

struct Walk {
  double share = 0, burst = 0;
};

Walk walk(const Loss& loss, int count) {
  Random random(7, {Purpose::test, 1});
  int lost = 0, bursts = 0;
  bool now = false;
  for (int i = 0; i < count; ++i) {
    const bool next = random.uniform() < loss.after(now);
    lost += next;
    bursts += next && !now;
    now = next;
  }
  return {double(lost) / count, double(lost) / bursts};
}

TEST(Loss, BurstsHaveTheirShareAndTheirMean) {
  for (const double p : {0.005, 0.1, 0.4})
    for (const double burst : {1.0, 3.0, 20.0}) {
      if (kGate && burst > 1000 * p) continue;  // too few of them
      const Walk seen = walk({p, burst}, kGate ? 300'000 : 2'000'000);
      const double within = kGate ? 0.1 : 0.06;
      EXPECT_NEAR(seen.share, p, within * p) << p << " in bursts of " << burst;
      EXPECT_NEAR(seen.burst, burst, within * burst) << p << " in bursts of " << burst;
    }
}

TEST(Loss, PacketsByThemselvesAreLostInRunsOfOneByOneLessP) {
  EXPECT_NEAR(walk({0.2, 0}, 1'000'000).burst, 1 / 0.8, 0.01);
  EXPECT_DOUBLE_EQ((Loss{0.2, 0}.survival(3)), std::pow(0.8, 3));
}

TEST(Loss, BurstsLeaveMoreRunsWhole) {
  EXPECT_DOUBLE_EQ((Loss{0.1, 1}.survival(1)), 0.9);
  EXPECT_GT((Loss{0.1, 10}.survival(20)), (Loss{0.1, 0}.survival(20)));
  EXPECT_DOUBLE_EQ((Loss{0.1, 10}.survival(0)), 1);
}

TEST(Loss, ALargeShareNeedsLongBursts) {
  EXPECT_DOUBLE_EQ(Loss::shortest_burst(0.2), 1);
  EXPECT_DOUBLE_EQ(Loss::shortest_burst(0.75), 3);
  EXPECT_NEAR(walk({0.75, 3}, 1'000'000).share, 0.75, 0.01);
}

}  // namespace
}  // namespace longhaul::flow
