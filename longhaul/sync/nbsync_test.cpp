// One worker of NBSync, step by step, with an overlay whose means come when the test says so.
// Periods, utilisation and whole jobs: tests/unequal_test.cpp.
//
// Invariants:
// 1  W_T = W_0 + the means: NBSync.Inv1_WIsTheSumOfTheMeans.
// 2  Every step is in exactly one update: NBSync.Inv2_*, NBSyncJob.Inv5_*.
// 3  One update per window, with at least one step, after the previous model: NBSync.Inv3_*.
// 4  A swap covers parameters and buffers, at a boundary: NBSync.Inv4_*.
// 5  Staleness is one window: 1,000 networks and speeds: NBSyncJob.Inv5_*.
//    Workers compute 95 % of the time: NBSyncJob.WorkersComputeWhileStepTimesDrift.
// 6  A slow network costs no steps: NBSyncJob.Inv6_ASlowNetworkCostsNoSteps.
// 7, 8  Contraction is the modulus of the root of z^2 - z + global_rate q: NBSync.Inv7And8_*.
// 10 The period is a whole number of the slowest steps: NBSyncJob.Inv10_*.
// Late progress counts once; no window exceeds the deadline: DeadlineWorker.NBSync*,
// tests/deadline_test.cpp. NBSyncJob.* are in tests/unequal_test.cpp.
#include <cmath>

#include <gtest/gtest.h>

#include "longhaul/sync/testing/hand_made.h"
#include "longhaul/sync/testing/test_job.h"

namespace longhaul::sync {
namespace {

using testing::Floats;
using testing::HandMadeOverlay;
using testing::Quadratic;
using namespace std::chrono_literals;

constexpr Quadratic::Config kHalving{
    .target = 0, .slope = 0, .start = 8, .rate = 0.5f, .buffers = 1};

// Two parameters and a buffer that counts the steps.
struct Worker : testing::HandMadeNode {
  explicit Worker(std::vector<Setting> settings = {}, Quadratic::Config like = kHalving,
                  StopConfig stop = {.max_rounds = 1000, .report_every = 1000})
      : HandMadeNode(3, like, {{"oregon"}}, 0, stop,
                     testing::maker("nbsync", std::move(settings))) {
    start();
    progress();
  }
  bool computes() const { return !context.wanted.empty(); }
  // The step under way ends.
  void step(Time took = 1s) {
    ASSERT_TRUE(computes());
    context.wanted.clear();
    context.now += took;
    strategy->on_step(*learner.step(LocalStep{}), turn);
    strategy->on_computed({.steps = 1, .samples = 1, .elapsed = took}, turn);
    progress();
  }
  // What comes in the midst of a step.
  void outcome(VectorId key, Floats values) {
    overlay->outcomes[key] = {std::move(values), 1, {0}, {}};
    context.busy = computes();
    progress();
    context.busy = false;
  }
  void mean(Round window, Floats values, Floats extras) {
    overlay->outcomes[{window, 0, 0}] = {std::move(values), 1, {0}, {}};
    outcome({window, 0, 1}, std::move(extras));
  }
  const HandMadeOverlay::Begun& sent(Round window) { return overlay->begun.at({window, 0, 0}); }
  const HandMadeOverlay::Begun& extras(Round window) { return overlay->begun.at({window, 0, 1}); }
  Floats x() { return all(); }
};

// Steps halve x: 8, 4, 2, 1 ... The first is the first window's; the next two were taken while its
// mean was on its way.
TEST(NBSync, Inv2_EveryStepIsInExactlyOneUpdateTheFirstWindowIncluded) {
  Worker w;
  w.step();
  EXPECT_EQ(w.sent(0).values, (Floats{-4, -4}));
  w.step();
  w.step();
  EXPECT_EQ(w.x(), (Floats{1, 1, 3}));
  w.mean(0, {-2, -2}, {1});
  EXPECT_FALSE(w.overlay->begun.contains({1, 0, 0})) << "between two steps";
  w.step();
  EXPECT_EQ(w.sent(1).values, (Floats{-3.5f, -3.5f})) << "from 4 to 1/2";
  EXPECT_EQ(w.extras(1).values, (Floats{4})) << "the buffers as they were before the swap";
  EXPECT_EQ(w.x(), (Floats{6, 6, 1})) << "W_1";
  EXPECT_EQ(w.sum_of("steps"), 4);
}

TEST(NBSync, Inv1_WIsTheSumOfTheMeans) {
  Worker w({{"global_rate", {0.5}}});
  Floats expected = {8, 8};
  for (Round window = 0; window < 5; ++window) {
    for (Round i = 0; i <= window; ++i) w.step();
    const Floats mean = {float(window) - 2, 1};
    w.mean(window, mean, {float(window)});
    w.step();
    for (int i = 0; i < 2; ++i) expected[std::size_t(i)] += 0.5f * mean[std::size_t(i)];
    EXPECT_EQ(w.x(), (Floats{expected[0], expected[1], float(window)})) << window;
  }
}

// One a window, made of a step at least; none before the model of the window before is installed.
TEST(NBSync, Inv3_OneUpdateAWindowOfOneStepAtLeast) {
  Worker w;
  for (Round window = 0; window < 4; ++window) {
    w.overlay->outcomes[{window, 0, 0}] = {{0, 0}, 1, {0}, {}};
    w.overlay->outcomes[{window, 0, 1}] = {{0}, 1, {0}, {}};
  }
  for (Round steps = 1; steps <= 4; ++steps) {
    w.step();
    EXPECT_EQ(w.overlay->begun.size(), 2 * steps);
  }
}

// Half a model is none: parameters and buffers of a window are installed together, at a boundary.
TEST(NBSync, Inv4_TheSwapIsWholeAndAtAStepBoundary) {
  Worker w;
  w.step();
  w.outcome({0, 0, 0}, {1, 1});
  w.step();
  EXPECT_EQ(w.x(), (Floats{2, 2, 2}));
  w.outcome({0, 0, 1}, {7});
  EXPECT_EQ(w.x(), (Floats{2, 2, 2}));
  w.step();
  EXPECT_EQ(w.x(), (Floats{9, 9, 7}));
}

// x = W_t + keep (x - mark), and the mark moves along: no step is handed over twice.
TEST(NBSync, WhatIsKeptOfTheOwnProgressIsNotHandedOverAgain) {
  Worker w({{"keep", {0.5}}}, kHalving, {.max_rounds = 1000, .report_every = 1});
  w.step();
  w.mean(0, {-4, -4}, {1});
  w.step();  // 4 to 2
  EXPECT_EQ(w.sent(1).values, (Floats{-2, -2}));
  EXPECT_EQ(w.x(), (Floats{3, 3, 1})) << "W_1 = 4, and half of -2";
  EXPECT_EQ(*w.done<Report>().at(0).model, (Floats{4, 4, 1})) << "W_1 is what is scored";
  w.score(0);
  w.mean(1, {0, 0}, {1});
  w.step();
  EXPECT_EQ(w.sent(2).values, (Floats{-1.5f, -1.5f})) << "from 3";
}

// Once a window, before its first step, and counted as none.
TEST(NBSync, TheLocalOptimiserStartsAfreshInEachWindowIfToldTo) {
  for (const bool reset : {false, true}) {
    Worker w({{"reset_optimizer", {reset}}});
    w.step(), w.step();
    w.mean(0, {0, 0}, {0});
    w.step();  // a swap is at a step boundary
    ASSERT_EQ(w.context.wanted.size(), 1u);
    EXPECT_EQ(std::holds_alternative<ResetOptimizer>(w.context.wanted[0].first), reset);
    if (!reset) continue;
    w.context.wanted.clear();
    w.strategy->on_step({}, w.turn);
    w.strategy->on_computed({.steps = 1}, w.turn);
    w.progress();
    EXPECT_FALSE(std::holds_alternative<ResetOptimizer>(w.context.wanted.at(0).first));
    w.mean(1, {0, 0}, {0});
    EXPECT_FALSE(w.overlay->begun.contains({2, 0, 0})) << "a window has a step at least";
  }
}

// d_i / h_i weigh alike, and the mean of the h_j multiplies them.
TEST(NBSync, ByStepsUpdatesCountPerStep) {
  Worker w({testing::set_count("first", 2), testing::set_name("weights", "steps")});
  w.step();
  EXPECT_TRUE(w.overlay->begun.empty());
  w.step();
  EXPECT_EQ(w.sent(0).values, (Floats{-3, -3}));
  EXPECT_EQ(w.extras(0).values, (Floats{2, 2})) << "buffer and steps";
  w.mean(0, {-0.5f, -1}, {2, 6});
  w.step();
  EXPECT_EQ(w.x(), (Floats{5, 2, 2}));
}

TEST(NBSync, BySamplesUpdatesWeighWhatTheirSitesHold) {
  for (const std::string weights : {"equal", "samples"}) {
    Quadratic::Config like = kHalving;
    like.samples = 7;
    Worker w({testing::set_name("weights", weights)}, like);
    w.step();
    EXPECT_EQ(w.sent(0).weight, weights == "equal" ? 1 : 7);
  }
}

TEST(NBSync, AFullWindowWaitsForItsMeanAndSaysHowLong) {
  Worker w({testing::set_count("max_steps", 3)});
  w.step();
  for (int i = 0; i < 3; ++i) w.step();
  EXPECT_FALSE(w.computes());
  EXPECT_NE(w.strategy->waiting_for(), "");
  w.context.now += 5s;
  w.mean(0, {0, 0}, {1});
  EXPECT_TRUE(w.computes());
  EXPECT_EQ(w.sum_of("window_wait_s"), 5);
}

// Cut off from the others a worker does not walk away without bound.
TEST(NBSync, AnOrphanPausesAtABoundary) {
  Worker w({{"orphan_s", {10.0}}});
  w.step(4s);
  w.step(2s);
  w.mean(0, {0, 0}, {1});
  w.step(2s);  // a window of 8 s: 40 s of patience
  for (int i = 0; i < 10; ++i) w.step(4s);
  EXPECT_TRUE(w.computes());
  w.step(1s);
  EXPECT_FALSE(w.computes());
  w.mean(1, {0, 0}, {1});
  EXPECT_TRUE(w.computes());
}

// What was computed after the last swap, while the verdict was on its way, is in no window: the run
// leaves W_T on all nodes.
TEST(NBSync, TheRunEndsWithTheGlobalModel) {
  Worker w({}, kHalving, {.target_accuracy = 0.5, .max_rounds = 1000, .report_every = 1});
  w.step();
  w.mean(0, {-1, -1}, {1});
  w.step();
  w.mean(1, {-1, -1}, {5});
  w.step();  // installs W_2, and waits for what is said of round 0
  EXPECT_EQ(w.x(), (Floats{6, 6, 5}));
  w.step();
  EXPECT_EQ(w.x(), (Floats{3, 3, 6}));
  w.context.busy = true;
  w.score(0, {.accuracy = 0.9});
  w.context.busy = false;
  EXPECT_TRUE(w.done<Finish>().empty());
  w.step();
  EXPECT_EQ(w.x(), (Floats{6, 6, 5}));
  EXPECT_EQ(w.done<Finish>().size(), 1u);
  EXPECT_FALSE(w.computes());
}

// W_{t+1} = W_t + d^{t+1}, where d^{t+1} starts from W_{t-1}: of a quadratic whose windows cover
// the share q of the way to its minimum the roots of z z - z + q say how fast W gets there.
TEST(NBSync, Inv7And8_ADelayOfOneWindowContractsAsTheFormulaSays) {
  for (const double rate : {0.1, 0.5, 0.9, 0.99}) {
    Quadratic::Config like = kHalving;
    like.rate = float(rate);
    Worker w({}, like);
    double before = 0, log_sum = 0;
    for (Round window = 0; window < 60; ++window) {
      w.step();  // installs the window before, if any
      const Floats d = w.sent(window).values;
      w.mean(window, d, {0});
      // d is of the step from the model of two installs ago.
      const double norm = std::hypot(double(d[0]), window > 0 ? before : 0);
      if (window == 29) log_sum -= std::log(norm);
      if (window == 59) log_sum += std::log(norm);
      before = double(d[0]);
    }
    const double q = rate;
    const double modulus =
        q > 0.25 ? std::sqrt(q) : (1 + std::sqrt(1 - 4 * q)) / 2;  // of the larger root
    EXPECT_NEAR(std::exp(log_sum / 30), modulus, 0.02) << rate;
  }
}

TEST(NBSync, FewerMaxStepsThanTheFirstWindowNeedsAreRefused) {
  const Status status = testing::status_of(
      "nbsync", {testing::set_count("first", 3), testing::set_count("max_steps", 2)});
  ASSERT_FALSE(status);
  EXPECT_NE(status.error().what.find("max_steps"), std::string::npos);
}

}  // namespace
}  // namespace longhaul::sync
