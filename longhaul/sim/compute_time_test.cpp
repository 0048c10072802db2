#include "longhaul/sim/compute_time.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

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
    const double s = seconds(times.duration(0, step, Time{0}, LocalStep{}));
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

TEST(ComputeTime, DrawsDependOnSeedRankAndStepAlone) {
  const JitteredSteps a(7, {{1s, Jitter::uniform, 1}, {1s, Jitter::uniform, 1}});
  const JitteredSteps b(8, {{1s, Jitter::uniform, 1}, {1s, Jitter::uniform, 1}});
  EXPECT_EQ(a.duration(0, 5, 0s, LocalStep{}), a.duration(0, 5, 0s, Gradient{}));
  EXPECT_NE(a.duration(0, 5, 0s, LocalStep{}), a.duration(1, 5, 0s, LocalStep{}));
  EXPECT_NE(a.duration(0, 5, 0s, LocalStep{}), a.duration(0, 6, 0s, LocalStep{}));
  EXPECT_NE(a.duration(0, 5, 0s, LocalStep{}), a.duration(0, 5 + (1ull << 32), 0s, LocalStep{}));
  EXPECT_NE(a.duration(0, 5, 0s, LocalStep{}), b.duration(0, 5, 0s, LocalStep{}));
}

// Steps begun in a stretch of the trace take what it says: of 1.2 s there are 10 of 50 ms, 2 of 200
// and, of the last one, what is left.
TEST(ComputeTime, ATraceSaysHowManyStepsAreDoneByAnyTime) {
  const flow::Trace trace{.at = {0, 0.5, 0.9}, .values = {50, 200, 10}};
  const JitteredSteps times(7, {{.mean = 1s, .trace = trace}});
  Time now{0};
  std::map<Time, std::uint64_t> done;
  for (std::uint64_t step = 0; now < 1200ms; ++step) {
    now += times.duration(0, step, now, LocalStep{});
    done[now] = step + 1;
  }
  const auto by = [&](Time t) { return std::prev(done.upper_bound(t))->second; };
  EXPECT_EQ(by(500ms), 10u);
  EXPECT_EQ(by(900ms), 12u);
  EXPECT_EQ(by(1200ms), 42u);
  EXPECT_EQ(now, 1200ms);
}

TEST(ComputeTime, NodesOfASiteDriftTogetherAroundTheirMeans) {
  const StepTimeDrift drift{.deviation = 0.4, .every_s = 1};
  const JitteredSteps times(7, {{.mean = 100ms, .drift = drift, .site = 5},
                                {.mean = 200ms, .drift = drift, .site = 5},
                                {.mean = 100ms, .drift = drift, .site = 6}});
  for (const Time at : {Time{5s}, Time{50s}, Time{500s}}) {
    const double factor = drift_factor(drift, 7, 5, at);
    EXPECT_NEAR(seconds(times.duration(0, 9, at, LocalStep{})), 0.1 * factor, 1e-9);
    EXPECT_NEAR(seconds(times.duration(1, 9, at, LocalStep{})), 0.2 * factor, 1e-9);
    EXPECT_NE(times.duration(2, 9, at, LocalStep{}), times.duration(0, 9, at, LocalStep{}));
  }
}

TEST(ComputeTime, WorkWithoutABatchTakesNoTime) {
  const JitteredSteps times(7, {{1s}});
  EXPECT_EQ(times.duration(0, 0, 0s, ApplyGradient{}), 0s);
  EXPECT_EQ(times.duration(0, 0, 0s, ResetOptimizer{}), 0s);
  EXPECT_EQ(times.duration(0, 0, 0s, Score{}), 0s);
  EXPECT_EQ(times.duration(0, 0, 0s, FixedGradient{}), 0s);
  EXPECT_EQ(times.duration(0, 0, 0s, ScratchStep{}), 1s);
  EXPECT_EQ(times.duration(0, 0, 0s, ProximalStep{}), 1s);
}

}  // namespace
}  // namespace longhaul::sim
