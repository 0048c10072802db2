// Invariants:
// - Each graph is connected and W doubly stochastic, up to 40 workers: gossip/graph_test.cpp.
// - adapt_then_combine on a complete graph is bsp after every round (1e-6).
// - The published order has other models and, after one round, bsp's mean.
// - Consensus at the rate of the second eigenvalue, within 2 %, on ring, torus and exponential.
// - Differences in int8 reach consensus.
// - Losses at many moments; returns: tests/peer_return_test.cpp, tests/return_test.cpp.
// - Simulator and sockets are bit-identical: tests/sockets_test.cpp.
#include <gtest/gtest.h>

#include <cmath>

#include "longhaul/base/testing/effort.h"
#include "longhaul/sync/gossip/graph.h"
#include "longhaul/sync/testing/test_job.h"

namespace longhaul::sync {
namespace {

using testing::expect_near;
using testing::Quadratic;
using testing::TestJob;

constexpr const char* kMixingGraphs[] = {"ring", "torus", "exponential", "complete", "best_rate"};

std::vector<Setting> mixing(std::string graph, std::string order = "published",
                            std::string send = "model", std::int64_t steps = 1) {
  return {{"graph", {std::move(graph)}},
          {"order", {std::move(order)}},
          {"send", {std::move(send)}},
          {"steps", {steps}}};
}

TestJob::Config dpsgd_job(std::uint32_t n, std::vector<Setting> settings, Round rounds) {
  return {.sync = "dpsgd",
          .settings = std::move(settings),
          .learners = testing::learners(n, {.rate = 0.1f, .momentum = 0.5f, .buffers = 2}),
          .stop = {.max_rounds = rounds, .report_every = 3}};
}

// Every model after a round is the mean of all that a step was added to, which is what bsp has.
TEST(Dpsgd, AdaptThenCombineOnACompleteGraphIsBsp) {
  std::vector<std::vector<float>> seen, of_bsp;
  const auto record = [](std::vector<std::vector<float>>& models) {
    return [&models](const std::vector<float>& model) {
      models.push_back(model);
      return Evaluation{};
    };
  };
  TestJob::Config config = dpsgd_job(5, mixing("complete", "adapt_then_combine"), 20);
  config.stop.report_every = 1;
  config.score = record(seen);
  auto job = TestJob::ended(config);
  config.sync = "bsp";
  config.settings = {};
  config.score = record(of_bsp);
  auto bsp = TestJob::ended(config);
  ASSERT_EQ(seen.size(), 20u);
  ASSERT_EQ(of_bsp.size(), 20u);
  for (std::size_t round = 0; round < seen.size(); ++round) {
    SCOPED_TRACE(round);
    expect_near(std::span(seen[round]).first(6), std::span(of_bsp[round]).first(6), 1e-6);
  }
  expect_near(job.params(3), bsp.params(3), 1e-6);
}

// x_i <- mean of the models before the step + its own step: from equal models the mean of the first
// round is bsp's, the models themselves are not.
TEST(Dpsgd, PublishedOrderMixesTheModelsBeforeTheStep) {
  std::vector<float> first, second;
  TestJob::Config config = dpsgd_job(4, mixing("complete"), 2);
  for (auto& learner : config.learners) learner.momentum = 0, learner.buffers = 0;
  config.stop.report_every = 1;
  config.score = [&](const std::vector<float>& model) {
    (first.empty() ? first : second) = model;
    return Evaluation{};
  };
  auto job = TestJob::ended(config);
  double mean_target = 0;
  for (const auto& learner : config.learners) mean_target += double(learner.target) / 4;
  const double x0 = 10, rate = 0.1f;  // element 0: target of rank k is k^2
  const double own = x0 - rate * (x0 - 0), mean = x0 - rate * (x0 - mean_target);
  EXPECT_NEAR(first[0], own, 1e-5);
  EXPECT_NEAR(second[0], mean - rate * (own - 0), 1e-5);
  EXPECT_EQ(job.params(0), job.params(3));
  config.sync = "bsp";
  config.settings = {};
  config.stop.max_rounds = 1;
  auto bsp = TestJob::ended(config), once = TestJob::ended(dpsgd_job(4, mixing("complete"), 1));
  EXPECT_NEAR(once.params(0)[0], bsp.params(0)[0], 1e-5);
  EXPECT_NEAR(bsp.params(0)[0], mean, 1e-5);
}

// The second largest modulus of an eigenvalue of W, by the power method on what is orthogonal to
// the mean.
double second_eigenvalue(const std::string& graph, std::uint32_t n) {
  std::vector<Rank> workers;
  for (Rank rank = 0; rank < n; ++rank) workers.push_back(rank);
  std::vector<double> x(n);
  for (std::uint32_t i = 0; i < n; ++i) x[i] = std::sin(1 + 7.0 * i);
  std::vector<decltype(gossip::weights(graph, 3, {}, workers, 0))> weights;
  for (const Rank i : workers) weights.push_back(gossip::weights(graph, 3, {}, workers, i));
  double modulus = 0;
  for (int pass = 0; pass < 400; ++pass) {
    std::vector<double> y(n);
    double sum = 0, before = 0, after = 0;
    for (Rank i = 0; i < n; ++i) {
      y[i] = x[i];
      for (const auto& [j, w] : weights[i]) y[i] += w * (x[j] - x[i]);
      sum += y[i];
    }
    for (Rank i = 0; i < n; ++i) {
      y[i] -= sum / n;
      before += x[i] * x[i];
      after += y[i] * y[i];
    }
    modulus = std::sqrt(after / before);
    for (Rank i = 0; i < n; ++i) x[i] = y[i] / std::sqrt(after);
  }
  return modulus;
}

// Without gradients the distance from the mean shrinks by that modulus each round.
TEST(Dpsgd, ConsensusIsReachedAtTheRateOfTheGraph) {
  for (const std::string graph : {"ring", "torus", "exponential"}) {
    for (const std::uint32_t n : {9u}) {
      SCOPED_TRACE(graph + " of " + std::to_string(n));
      constexpr Round kRounds = 16;
      TestJob::Config config = dpsgd_job(n, mixing(graph), kRounds);
      float sum = 0;
      for (std::uint32_t k = 0; k < n; ++k) {  // their mean is 0, so that small is exact
        const float start = k + 1 == n ? -sum : float(int(k * k * 37 % 64) - 32) / 8;
        sum += start;
        config.learners[k] = {.slope = 0, .start = start, .rate = 0, .buffers = 0};
      }
      TestJob job(config);
      std::vector<std::vector<double>> after(kRounds + 1, std::vector<double>(n, 0));
      job.after_event = [&] {
        for (Rank rank = 0; rank < n; ++rank)
          if (const Round round = job.node(rank).strategy().rounds_done(); round < kRounds)
            after[round][rank] = double(job.learner(rank).params()[0]);
      };
      job.run();
      const auto distance = [&](Round round) {
        double squares = 0;
        for (const double x : after[round]) squares += x * x;
        return std::sqrt(squares);
      };
      const double measured = std::pow(distance(15) / distance(11), 1.0 / 4);
      const double expected = second_eigenvalue(graph, n);
      EXPECT_GT(distance(15), 0);
      EXPECT_NEAR(measured, expected, 0.02 * expected);
    }
  }
}

TEST(Dpsgd, AllWaysEndWithOneModelNearTheOptimum) {
  constexpr std::uint32_t kWorkers = longhaul::testing::kGate ? 4 : 6;
  std::size_t number = 0;
  for (const char* graph : kMixingGraphs) {
    for (const char* order : {"published", "adapt_then_combine"}) {
      for (const char* send : {"model", "difference"}) {
        // In the gate one in three: every graph, and every order with each of what is sent.
        if (longhaul::testing::kGate && number++ % 3 != 0) continue;
        SCOPED_TRACE(std::string(graph) + " " + order + " " + send);
        auto job = TestJob::ended(dpsgd_job(kWorkers, mixing(graph, order, send, 2), 25));
        expect_no_errors(job);
        ASSERT_EQ(job.finished.size(), kWorkers);
        for (Rank rank = 1; rank < kWorkers; ++rank) EXPECT_EQ(job.params(rank), job.params(0));
        double mean = 0;
        for (Rank rank = 0; rank < kWorkers; ++rank) mean += double(rank * rank) / kWorkers;
        EXPECT_NEAR(job.params(0)[0], mean, 0.1);
        // Buffers grow by 1 + k^2 in each of 50 steps of rank k; their mean is kept.
        EXPECT_NEAR(job.params(0)[7], 50 * (1 + mean), 1e-2);
      }
    }
  }
}

// The copies follow what is read of the differences, so that a coarse codec does not stand in the
// way of consensus: models in int8 stay apart by a grain, copies do not.
TEST(Dpsgd, DifferencesThroughACoarseCodecReachConsensus) {
  const auto spread_with = [](const char* send) {
    TestJob::Config config = dpsgd_job(5, mixing("ring", "published", send), 60);
    config.codec = {{"kind", {std::string("int8")}}, {"error_feedback", {false}}};
    for (std::uint32_t k = 0; k < 5; ++k)
      config.learners[k] = {.slope = 0, .start = 100, .rate = k == 0 ? 0.01f : 0.0f, .buffers = 0};
    TestJob job(config);
    std::map<Rank, float> last;
    job.after_event = [&] {
      for (Rank rank = 0; rank < 5; ++rank)
        if (job.node(rank).strategy().rounds_done() == 60 && job.finished.empty())
          last.try_emplace(rank, job.params(rank)[0]);
    };
    job.run();
    EXPECT_EQ(job.finished.size(), 5u);
    double least = 1e9, most = -1e9, mean = 0;
    for (const auto& [rank, x] : last) {
      least = std::min(least, double(x));
      most = std::max(most, double(x));
      mean += double(x) / 5;
    }
    // Copies or not, what one gains the other loses: the mean is what the steps made it.
    return std::pair{most - least, mean};
  };
  const auto [spread, mean] = spread_with("difference");
  EXPECT_LT(spread, 3);
  EXPECT_LT(mean, 90);
}

// Samples are mixed as models are: the reporter knows how many all have used.
TEST(Dpsgd, EndsWithTheRoundInWhichTheReporterHasCountedEnough) {
  TestJob::Config config = dpsgd_job(4, mixing("ring"), 1000);
  config.stop = {.max_rounds = 1000, .max_samples = 30, .report_every = 2, .lag = 1};
  auto job = TestJob::ended(config);
  // 4 in a round: 32 after round 7, which is reported; it takes effect a round later.
  for (Rank rank = 0; rank < 4; ++rank)
    EXPECT_EQ(job.node(rank).strategy().rounds_done(), 9u) << rank;
}

TEST(Dpsgd, AModelThatIsNotFiniteEndsTheRunWithAReason) {
  TestJob::Config config = dpsgd_job(3, mixing("ring"), 1000);
  for (auto& learner : config.learners) learner.rate = 1e6f;
  auto job = TestJob::ended(config);
  ASSERT_FALSE(job.failures.empty());
  EXPECT_NE(job.failures.begin()->second.find("lower [optimizer] rate"), std::string::npos);
}

TEST(Dpsgd, SavingAndLoadingAfterEveryEventEqualsGoingOn) {
  for (const char* order : {"published", "adapt_then_combine"})
    for (const char* send : {"model", "difference"})
      EXPECT_EQ(testing::changed_by_saving(dpsgd_job(3, mixing("ring", order, send, 2), 3)), "");
}

// From one moment of a loss to the next.
constexpr int kEvery = longhaul::testing::kGate ? 700 : longhaul::testing::kStride > 1 ? 97 : 5;

// Nodes enter the new view in different rounds, whichever moment it is.
TEST(Dpsgd, TheOthersGoOnWithoutALostNeighbour) {
  int number = 0;
  for (const char* graph : {"ring", "exponential", "best_rate"}) {
    for (const char* send : {"model", "difference"}) {
      TestJob::Config config = dpsgd_job(7, mixing(graph, "published", send), 12);
      config.takes = [](Rank rank) { return int(rank * 5 % 7) * 3; };
      // In the gate each begins at another moment.
      for (int at = longhaul::testing::kGate ? 113 * number++ : 0; at < 700; at += kEvery) {
        SCOPED_TRACE(std::string(graph) + " " + send + " " + std::to_string(at));
        TestJob job(config);
        job.crash_at(at, 3);
        job.crash_at(at + 40, 5);
        job.run();
        expect_ended_alike(job, 12);
      }
    }
  }
}

}  // namespace
}  // namespace longhaul::sync
