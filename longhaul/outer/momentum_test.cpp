// Invariants (in this file unless another is named):
//   -       momentum: the formula, the first step and the limit; rate 1 with momentum 0 changes no
//           bit
//   nesterov: rate 1 with momentum 0 changes no bit
//   nesterov, a constant update: first step 1.33 of it, limit 7 of it
//   -       saving and loading after every step changes nothing; settings out of range are refused:
//           registry_test.cpp
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

// --- nesterov

// constant ubar: the first outer step is 0.7 (1 + 0.9) = 1.33 ubar, the limit
// 0.7 (1 + 0.9 / (1 - 0.9)) = 7 ubar.
TEST(Nesterov, R3_24_ConstantUpdateStartsAt1_33AndTendsTo7) {
  Nesterov nesterov{NesterovConfig{}};
  const Floats ubar = {1.f, -0.25f, 0.f};
  Floats update = ubar;
  nesterov.apply(update);
  for (std::size_t i = 0; i < ubar.size(); ++i) EXPECT_NEAR(update[i], 1.33 * ubar[i], 1e-6);
  float before = update[0];
  for (int step = 0; step < 400; ++step) {
    nesterov.apply(update = ubar);
    EXPECT_GE(update[0], before);
    before = update[0];
  }
  for (std::size_t i = 0; i < ubar.size(); ++i) EXPECT_NEAR(update[i], 7 * ubar[i], 1e-5);
}

// By hand, with numbers that are exact in binary.
TEST(Nesterov, FollowsItsFormula) {
  Nesterov nesterov({.rate = 2, .momentum = 0.5});
  Floats update = {4.f};
  nesterov.apply(update);  // buf = 4
  EXPECT_EQ(update[0], 12.f);
  update = {-8.f};
  nesterov.apply(update);  // buf = -6
  EXPECT_EQ(update[0], -22.f);
}

// The ground of: outer rate 1 and momentum 0 are plain averaging, to the bit.
TEST(Nesterov, R3_23_WithoutMomentumAndWithRateOneChangesNoBit) {
  Nesterov nesterov({.rate = 1, .momentum = 0});
  Random random(4, {Purpose::test});
  for (int step = 0; step < 100; ++step) {
    const float u = float(random.normal());
    Floats update = {u};
    nesterov.apply(update);
    EXPECT_EQ(update[0], u);
  }
}

}  // namespace
}  // namespace longhaul::outer
