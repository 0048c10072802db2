#include "longhaul/outer/optimisers.h"

#include <vector>

#include <gtest/gtest.h>

#include "longhaul/base/rng.h"

namespace longhaul::outer {
namespace {

using Floats = std::vector<float>;

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
