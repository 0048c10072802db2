#include "longhaul/sim/compute_time.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace longhaul::sim {
namespace {

using namespace std::chrono_literals;
using Jitter = JitteredSteps::Jitter;

struct Draws {
  double mean = 0, deviation = 0, least = 1e9, most = 0;
};

Draws draw(Jitter jitter, double amount) {
  const JitteredSteps times(7, {{100ms, jitter, amount}});
  constexpr int kDraws = 20'000;
  Draws d;
  double squares = 0;
  for (std::uint64_t step = 0; step < kDraws; ++step) {
    const double s = seconds(times.duration(0, step, LocalStep{}));
    d.mean += s / kDraws;
    squares += s * s / kDraws;
    d.least = std::min(d.least, s);
    d.most = std::max(d.most, s);
  }
  d.deviation = std::sqrt(std::max(0.0, squares - d.mean * d.mean));
  return d;
}

TEST(ComputeTime, DistributionsHaveTheirMeansAndSpreads) {
  const Draws none = draw(Jitter::none, 0.3);
  EXPECT_DOUBLE_EQ(none.least, 0.1);
  EXPECT_DOUBLE_EQ(none.most, 0.1);
  const Draws uniform = draw(Jitter::uniform, 0.3);
  EXPECT_NEAR(uniform.mean, 0.1, 5e-4);
  EXPECT_GE(uniform.least, 0.07);
  EXPECT_LE(uniform.most, 0.13);
  EXPECT_NEAR(uniform.deviation, 0.03 / std::sqrt(3.0), 5e-4);
  const Draws lognormal = draw(Jitter::lognormal, 0.5);
  EXPECT_NEAR(lognormal.mean, 0.1, 2e-3);
  EXPECT_NEAR(lognormal.deviation, 0.1 * std::sqrt(std::exp(0.25) - 1), 3e-3);
  const Draws exponential = draw(Jitter::exponential, 0.5);
  EXPECT_NEAR(exponential.mean, 0.15, 2e-3);
  EXPECT_GE(exponential.least, 0.1);
  EXPECT_NEAR(exponential.deviation, 0.05, 2e-3);
}

// mutant: longhaul/sim/compute_time.cpp
//   - Random random(seed_, {Purpose::jitter, step & 0xFFFFFFFF, rank, std::uint32_t(step >> 32)});
//   + Random random(seed_, {Purpose::jitter, step & 0xFFFFFFFF, 0, std::uint32_t(step >> 32)});
TEST(ComputeTime, DrawsDependOnSeedRankAndStepAlone) {
  const JitteredSteps a(7, {{1s, Jitter::uniform, 1}, {1s, Jitter::uniform, 1}});
  const JitteredSteps b(8, {{1s, Jitter::uniform, 1}, {1s, Jitter::uniform, 1}});
  EXPECT_EQ(a.duration(0, 5, LocalStep{}), a.duration(0, 5, Gradient{}));
  EXPECT_NE(a.duration(0, 5, LocalStep{}), a.duration(1, 5, LocalStep{}));
  EXPECT_NE(a.duration(0, 5, LocalStep{}), a.duration(0, 6, LocalStep{}));
  EXPECT_NE(a.duration(0, 5, LocalStep{}), a.duration(0, 5 + (1ull << 32), LocalStep{}));
  EXPECT_NE(a.duration(0, 5, LocalStep{}), b.duration(0, 5, LocalStep{}));
}

TEST(ComputeTime, WorkWithoutABatchTakesNoTime) {
  const JitteredSteps times(7, {{1s}});
  EXPECT_EQ(times.duration(0, 0, ApplyGradient{}), 0s);
  EXPECT_EQ(times.duration(0, 0, ResetOptimizer{}), 0s);
  EXPECT_EQ(times.duration(0, 0, Score{}), 0s);
  EXPECT_EQ(times.duration(0, 0, ScratchStep{}), 1s);
  EXPECT_EQ(times.duration(0, 0, ProximalStep{}), 1s);
}

}  // namespace
}  // namespace longhaul::sim
