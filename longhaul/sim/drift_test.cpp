#include "longhaul/sim/drift.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "longhaul/base/testing/effort.h"

namespace longhaul::sim {
namespace {

using namespace std::chrono_literals;

double logarithm(const StepTimeDrift& drift, std::uint64_t seed, std::uint64_t move) {
  return std::log(drift_factor(drift, seed, 3, Time{std::int64_t(move) * 1'000'000'000}));
}

// Far from the bounds every move is its own, of the deviation asked for: each draw of the walk is
// used once, also where the powers of two and the halves between them meet.
TEST(StepDrift, MovesAreIndependentAndOfTheDeviation) {
  const StepTimeDrift drift{.deviation = 0.01, .every_s = 1, .bound = 1e12};
  constexpr int kMoves = 70, kSeeds = longhaul::testing::kGate ? 1000 : 3000;
  std::vector<double> squares(kMoves), products(kMoves);
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    double before = 0, last = 0;
    for (int i = 0; i < kMoves; ++i) {
      const double now = logarithm(drift, seed, std::uint64_t(i) + 1);
      const double move = (now - before) / drift.deviation;
      squares[std::size_t(i)] += move * move / kSeeds;
      products[std::size_t(i)] += move * last / kSeeds;
      before = now;
      last = move;
    }
  }
  for (std::size_t i = 0; i < kMoves; ++i) {
    // Five times its deviation, sqrt(2 / kSeeds), and 1 / sqrt(kSeeds).
    EXPECT_NEAR(squares[i], 1, longhaul::testing::kGate ? 0.225 : 0.13) << i;
    EXPECT_NEAR(products[i], 0, longhaul::testing::kGate ? 0.16 : 0.095) << i;
  }
}

// It stands still between two moves, and does not begin with one.
TEST(StepDrift, MovesEverySoManySeconds) {
  const StepTimeDrift drift{.deviation = 0.3, .every_s = 20};
  EXPECT_EQ(drift_factor(drift, 7, 0, 0s), 1);
  EXPECT_EQ(drift_factor(drift, 7, 0, 20s - 1ns), 1);
  EXPECT_NE(drift_factor(drift, 7, 0, 20s), 1);
  EXPECT_EQ(drift_factor(drift, 7, 0, 20s), drift_factor(drift, 7, 0, 39s));
  EXPECT_NE(drift_factor(drift, 7, 0, 20s), drift_factor(drift, 7, 0, 40s));
  EXPECT_EQ(drift_factor({}, 7, 0, 1h), 1);
}

// It goes everywhere between the bounds, each as often as a walk that is turned back there does.
TEST(StepDrift, StaysWithinItsBoundAndDoesNotStickThere) {
  const StepTimeDrift drift{.deviation = 0.2, .every_s = 1, .bound = 4};
  constexpr int kMoves = 40000;
  double least = 9, most = 0, above = 0, outer = 0, jump = 0, last = 0;
  for (std::uint64_t move = 0; move < kMoves; ++move) {
    const double x = logarithm(drift, 11, move);
    least = std::min(least, x);
    most = std::max(most, x);
    above += x > 0 ? 1.0 / kMoves : 0;
    outer += std::abs(x) > std::log(4) * 0.9 ? 1.0 / kMoves : 0;
    jump = std::max(jump, std::abs(x - last));
    last = x;
  }
  EXPECT_GE(least, -std::log(4) - 1e-12);
  EXPECT_LE(most, std::log(4) + 1e-12);
  EXPECT_LT(least, -0.99 * std::log(4));
  EXPECT_GT(most, 0.99 * std::log(4));
  EXPECT_NEAR(above, 0.5, 0.12);
  EXPECT_NEAR(outer, 0.1, 0.05);  // the logarithm is uniform in the long run
  EXPECT_LT(jump, 0.2 * 6);       // of no move of a normal number's
  EXPECT_EQ(drift_factor({.deviation = 1, .every_s = 1, .bound = 1}, 7, 0, 1h), 1);
}

TEST(StepDrift, SitesAndSeedsDriftEachByItself) {
  const StepTimeDrift drift{.deviation = 0.3};
  EXPECT_NE(drift_factor(drift, 7, 0, 10min), drift_factor(drift, 7, 1, 10min));
  EXPECT_NE(drift_factor(drift, 7, 0, 10min), drift_factor(drift, 8, 0, 10min));
  EXPECT_EQ(drift_factor(drift, 7, 1, 10min), drift_factor(drift, 7, 1, 10min));
}

}  // namespace
}  // namespace longhaul::sim
