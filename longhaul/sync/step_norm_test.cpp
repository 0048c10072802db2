// FedNova's normalisation, by the formulas of the paper.
#include "longhaul/sync/step_norm.h"

#include <cmath>

#include <gtest/gtest.h>

#include "longhaul/base/testing/effort.h"

namespace longhaul::sync {
namespace {

// The weights a_i,k of tau steps are (1 - rho^(tau - k)) / (1 - rho), k = 0 .. tau - 1: their sum.
TEST(StepNorm, TheWayWithMomentumIsTheSumOfWhatEachStepMoves) {
  for (double rho : {0.0, 0.5, 0.9, 0.99})
    for (std::uint32_t tau : {1u, 2u, 7u, 300u}) {
      double sum = 0;
      for (std::uint32_t k = 0; k < tau; ++k)
        sum += rho == 0 ? 1 : (1 - std::pow(rho, tau - k)) / (1 - rho);
      EXPECT_NEAR(way_in_steps(tau, rho), sum, 1e-9 * sum) << rho << " " << tau;
    }
}

// The mean of one round, as an overlay makes it.
float round_of(const StepNorm& norm, std::vector<std::pair<float, Computed>> updates) {
  double sum = 0, scalar = 0, weights = 0;
  for (auto& [u, computed] : updates) {
    const double p = norm.weight(computed);
    const std::vector<float> scalars = norm.divide({&u, 1}, computed);
    sum += p * double(u);
    if (!scalars.empty()) scalar += p * double(scalars[0]);
    weights += p;
  }
  auto mean = float(sum / weights);
  const auto tau = float(scalar / weights);
  norm.multiply({&mean, 1}, {&tau, norm.scalars()});
  return mean;
}

TEST(StepNorm, IsTheMeanOfEquationSix) {
  // u / a = 2 and -1, p = 3/4 and 1/4, tau_eff = 3/4 2 + 1/4 10 = 4.
  const float mean = round_of({.weights = "fednova"}, {{4, {.steps = 2, .shard_size = 300}},
                                                       {-10, {.steps = 10, .shard_size = 100}}});
  EXPECT_FLOAT_EQ(mean, 4 * (2 * 0.75f - 1 * 0.25f));
  // The same workers alike: tau_eff = 6.
  EXPECT_FLOAT_EQ(round_of({.weights = "steps"}, {{4, {.steps = 2, .shard_size = 300}},
                                                  {-10, {.steps = 10, .shard_size = 100}}}),
                  6 * (2 - 1) / 2.f);
  EXPECT_FLOAT_EQ(round_of({.weights = "steps", .effective_steps = 3},
                           {{4, {.steps = 2}}, {-10, {.steps = 10}}}),
                  3 * 0.5f)
      << "no longer than effective_steps";
}

TEST(StepNorm, EqualStepsAreThePlainMean) {
  for (double rho : {0.0, 0.9})
    EXPECT_NEAR(
        round_of({.weights = "fednova", .momentum = rho},
                 {{4, {.steps = 20, .shard_size = 300}}, {-10, {.steps = 20, .shard_size = 100}}}),
        round_of({.weights = "samples"},
                 {{4, {.steps = 20, .shard_size = 300}}, {-10, {.steps = 20, .shard_size = 100}}}),
        1e-6);
}

// Two quadratics (x - 0)^2 / 2 and (x - 1)^2 / 2 of equal weight, 1 and 50 small steps: the plain
// mean rests near the second's minimum, the normalised one at the minimum of their sum, 1/2.
TEST(StepNorm, ItsFixedPointIsTheSumsMinimum) {
  const double rate = 1e-4;
  const auto rests = [&](const StepNorm& norm) {
    double x = 0;
    for (int round = 0; round < (longhaul::testing::kGate ? 6000 : 60000); ++round) {
      const auto update = [&](double target, std::uint32_t steps) {
        return float((target - x) * (1 - std::pow(1 - rate, steps)));
      };
      x += double(round_of(norm, {{update(0, 1), {.steps = 1}}, {update(1, 50), {.steps = 50}}}));
    }
    return x;
  };
  EXPECT_NEAR(rests({.weights = "equal"}), 50 / 51., 0.01);
  EXPECT_NEAR(rests({.weights = "fednova"}), 0.5, 0.01);
}

TEST(StepNorm, PhantomsHaveNothingToScale) {
  const StepNorm norm{.weights = "fednova"};
  EXPECT_EQ(norm.divide({}, {.steps = 4}), std::vector<float>{4});
  norm.multiply({}, {});
}

}  // namespace
}  // namespace longhaul::sync
