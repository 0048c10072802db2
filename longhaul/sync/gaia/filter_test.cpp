#include "longhaul/sync/gaia/threshold.h"

#include <gtest/gtest.h>

#include <cmath>

#include "longhaul/base/rng.h"

namespace longhaul::sync::gaia {
namespace {

using Indexes = std::vector<std::uint32_t>;

// gaia_test.cpp, invariant 7, with values that are exact in binary: strictly larger than T |w|.
TEST(GaiaFilter, HoldsWhatIsLargerThanTTimesTheParameterAndAllWhereThatIsZero) {
  const std::vector<float> w = {1, 2, 0, -4, 0.5f};
  std::vector<float> acc = {0.125f, 0.3125f, 1e-9f, 0.375f, -0.078125f};
  const Indexes sent = significant(acc, w, {.threshold = 0.125});
  EXPECT_EQ(sent, (Indexes{1, 2, 4}));
  for (const std::uint32_t i : sent) acc[i] = 0;
  EXPECT_EQ(acc, (std::vector<float>{0.125f, 0, 0, 0.375f, 0}));
}

// gaia_test.cpp, invariant 8
TEST(GaiaFilter, UpdatesAddUpUntilTheyAreSignificant) {
  const std::vector<float> w = {1};
  std::vector<float> acc = {0};
  Indexes clocks;
  for (std::uint32_t clock = 1; clock <= 9; ++clock) {
    acc[0] += 0.04f;
    if (significant(acc, w, {.threshold = 0.1}).empty()) continue;
    clocks.push_back(clock);
    EXPECT_FLOAT_EQ(acc[0], 0.12f);
    acc[0] = 0;
  }
  EXPECT_EQ(clocks, (Indexes{3, 6, 9}));
}

TEST(GaiaFilter, AnAbsoluteThresholdReplacesTheRatio) {
  const std::vector<float> w = {0, 1000, 1000, 1};
  const std::vector<float> acc = {0.25f, 0.5f, -0.75f, 0};
  EXPECT_EQ(significant(acc, w, {.threshold = 1, .absolute = 0.25}), (Indexes{1, 2}));
}

TEST(GaiaFilter, AFlushHoldsAllButZero) {
  const std::vector<float> w = {0, 1000, 1000, 1};
  const std::vector<float> acc = {1e-30f, 0.5f, -0.75f, 0};
  EXPECT_EQ(significant(acc, w, {.threshold = 1, .absolute = 9, .everything = true}),
            (Indexes{0, 1, 2}));
  EXPECT_EQ(significant(acc, w, {.threshold = 0}), (Indexes{0, 1, 2}));
}

// gaia_test.cpp, invariant 3: what is left behind.
TEST(GaiaFilter, WhatIsLeftIsAtMostTTimesTheParameter) {
  Random random(3, {});
  for (const double T : {0.0, 0.01, 0.3}) {
    std::vector<float> w, acc;
    for (int i = 0; i < 500; ++i) {
      w.push_back(random.below(9) == 0 ? 0.0f : float(random.normal()));
      acc.push_back(random.below(9) == 0 ? 0.0f : float(random.normal()) * 0.1f);
    }
    for (const std::uint32_t i : significant(acc, w, {.threshold = T})) acc[i] = 0;
    for (std::size_t i = 0; i < w.size(); ++i) {
      if (w[i] != 0) EXPECT_LE(std::abs(double(acc[i])), T * std::abs(double(w[i])));
      if (w[i] == 0) EXPECT_EQ(acc[i], 0);
    }
  }
}

}  // namespace
}  // namespace longhaul::sync::gaia
