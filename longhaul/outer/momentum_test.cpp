#include "longhaul/outer/optimisers.h"

#include <vector>

#include <gtest/gtest.h>

#include "longhaul/base/rng.h"

namespace longhaul::outer {
namespace {

using Floats = std::vector<float>;

// buf <- m buf + u, u <- rate buf, by hand with numbers that are exact in binary.
TEST(Momentum, FollowsItsFormula) {
  Momentum momentum({.rate = 2, .momentum = 0.5});
  Floats update = {1.f, -4.f};
  momentum.apply(update);  // buf = 1, -4
  EXPECT_EQ(update, (Floats{2.f, -8.f}));
  update = {1.f, 0.f};
  momentum.apply(update);  // buf = 1.5, -2
  EXPECT_EQ(update, (Floats{3.f, -4.f}));
}

// Constant u: the first step is u itself, the limit u / (1 - momentum).
TEST(Momentum, ConstantUpdateTendsToTenTimesItself) {
  Momentum momentum{MomentumConfig{}};
  Floats update = {0.01f};
  momentum.apply(update);
  EXPECT_FLOAT_EQ(update[0], 0.01f);
  for (int step = 0; step < 400; ++step) momentum.apply(update = {0.01f});
  EXPECT_NEAR(update[0], 0.1, 1e-6);
}

TEST(Momentum, WithoutMomentumAndWithRateOneChangesNoBit) {
  Momentum momentum({.rate = 1, .momentum = 0});
  Random random(3, {Purpose::test});
  for (int step = 0; step < 100; ++step) {
    const float u = float(random.normal());
    Floats update = {u};
    momentum.apply(update);
    EXPECT_EQ(update[0], u);
  }
}

}  // namespace
}  // namespace longhaul::outer
