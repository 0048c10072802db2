#include "longhaul/transfer/dgt/config.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

namespace longhaul::transfer::dgt {
namespace {

Config quick() {
  Config config{.tau = 4, .w_loss = 3};
  return config;
}

TEST(ReliableShare, StaysAtFirstThenFollowsTheSmoothedLoss) {
  ReliableShare share(quick());
  for (int i = 0; i < 3; ++i) {
    share.observe(2);
    EXPECT_EQ(share.k(), 0.8);
  }
  share.observe(1);  // Lbar = 2 - 1/4, L1 = 2
  EXPECT_DOUBLE_EQ(share.k(), 0.8 * 1.75 / 2);
  share.observe(1);
  EXPECT_DOUBLE_EQ(share.k(), 0.8 * 1.5625 / 2);
}

// Invariant 6 of dgt_test.cpp.
TEST(ReliableShare, StaysWithinItsBounds) {
  ReliableShare share(quick());
  for (int i = 0; i < 3; ++i) share.observe(1);
  for (int i = 0; i < 50; ++i) {
    share.observe(i < 25 ? 100 : 1e-9);
    EXPECT_LE(share.k(), 1);
    EXPECT_GE(share.k(), 0.2);
    if (i == 24) EXPECT_EQ(share.k(), 1);
  }
  EXPECT_EQ(share.k(), 0.2);
}

TEST(ReliableShare, FallsAsTheLossFalls) {
  ReliableShare share(quick());
  double before = 1;
  for (int i = 0; i < 30; ++i) {
    share.observe(10.0 / (i + 1));
    if (i >= 3) EXPECT_LT(share.k(), before) << i;
    if (share.k() == 0.2) break;
    if (i >= 2) before = share.k() + (i == 2 ? 1 : 0);
  }
}

TEST(ReliableShare, ALossThatIsNotFiniteChangesNothing) {
  ReliableShare share(quick());
  for (int i = 0; i < 4; ++i) share.observe(2 - 0.1 * i);
  const double k = share.k();
  for (const double bad : {std::nan(""), std::numeric_limits<double>::infinity(),
                           -std::numeric_limits<double>::infinity()}) {
    share.observe(bad);
    EXPECT_EQ(share.k(), k);
  }
  ReliableShare first(quick());
  first.observe(std::nan(""));
  for (int i = 0; i < 4; ++i) first.observe(1);
  EXPECT_DOUBLE_EQ(first.k(), 0.8);
}

TEST(ReliableShare, NeedsALossAbove0ToFallWith) {
  ReliableShare share(quick());
  for (int i = 0; i < 10; ++i) share.observe(0);
  EXPECT_EQ(share.k(), 0.8);
}

TEST(ReliableShare, StaysWhereItIsIfNotAdaptive) {
  Config config = quick();
  config.adaptive = false;
  ReliableShare share(config);
  for (int i = 0; i < 10; ++i) share.observe(1.0 / (i + 1));
  EXPECT_EQ(share.k(), 0.8);
}

}  // namespace
}  // namespace longhaul::transfer::dgt
