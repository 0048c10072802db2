// Invariants (in this file unless another is named):
//   - algorithm 1 step by step; a constant update moves by the rate; finite updates stay finite
//   - saving and loading after every step changes nothing; settings out of range are refused:
//     registry_test.cpp
#include "longhaul/outer/optimisers.h"

#include <cfloat>
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "longhaul/base/rng.h"
#include "longhaul/base/testing/archived.h"

namespace longhaul::outer {
namespace {

using Floats = std::vector<float>;

// Algorithm 1 of the paper, step by step in double.
TEST(Adam, FollowsAlgorithm1) {
  const AdamConfig config{.rate = 0.1, .beta1 = 0.8, .beta2 = 0.95, .epsilon = 1e-3};
  Adam adam(config);
  Random random(5, {Purpose::test});
  double m = 0, v = 0;
  for (int t = 1; t <= 50; ++t) {
    const float u = float(random.normal());
    Floats update = {u};
    adam.apply(update);
    m = 0.8 * m + 0.2 * u;
    v = 0.95 * v + 0.05 * u * u;
    const double expected =
        0.1 * (m / (1 - std::pow(0.8, t))) / (std::sqrt(v / (1 - std::pow(0.95, t))) + 1e-3);
    EXPECT_NEAR(update[0], expected, 1e-6) << t;
  }
}

// Constant u much larger than epsilon: every step is rate in the direction of u.
TEST(Adam, ConstantUpdateMovesByTheRate) {
  Adam adam({.rate = 0.01, .epsilon = 1e-8});
  for (int step = 0; step < 100; ++step) {
    Floats update = {3.f, -200.f, 0.f};
    adam.apply(update);
    EXPECT_NEAR(update[0], 0.01, 1e-6);
    EXPECT_NEAR(update[1], -0.01, 1e-6);
    EXPECT_EQ(update[2], 0.f);
  }
}

TEST(Adam, FiniteUpdatesStayFinite) {
  Adam adam({.rate = 1000, .epsilon = 1e-12});
  for (float u : {FLT_MAX, -FLT_MAX, 0.f, FLT_TRUE_MIN, FLT_MAX, 1e-30f}) {
    Floats update = {u, u / 2};
    for (int step = 0; step < 50; ++step) {
      adam.apply(update);
      EXPECT_TRUE(std::isfinite(update[0]) && std::isfinite(update[1])) << u;
      const Buffer bytes = longhaul::testing::saved(adam);
      std::vector<float> mean, square;
      double powers[2] = {};
      Archive loaded(bytes);
      loaded(powers[0], powers[1], mean, square);
      for (float value : mean) ASSERT_TRUE(std::isfinite(value));
      for (float value : square) ASSERT_TRUE(std::isfinite(value));
      update = {u, u / 2};
    }
  }
}

}  // namespace
}  // namespace longhaul::outer
