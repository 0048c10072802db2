// Invariants:
// - Without gradients the mean of all models is kept, with fp32 and int8, and models converge.
// - One worker is plain training, bit-identical; the slow worker takes fewer steps.
// - Counts, reports and the end, also by a new senior worker: gossip/step_count_test.cpp.
// - 1,000 seeds of delays and speeds with two losses each end, with equal models:
//   tests/gossip_test.cpp.
// - Returns: tests/peer_return_test.cpp, tests/return_test.cpp.
#include "longhaul/sync/adpsgd.h"

#include <gtest/gtest.h>

#include "longhaul/base/testing/effort.h"
#include "longhaul/sync/testing/test_job.h"

namespace longhaul::sync {
namespace {

using testing::Quadratic;
using testing::TestJob;

TestJob::Config adpsgd_job(std::uint32_t n, Round rounds, std::vector<Setting> settings = {}) {
  return {.sync = "adpsgd",
          .settings = std::move(settings),
          .learners = testing::learners(n, {.rate = 0.1f, .buffers = 2}),
          .stop = {.max_rounds = rounds, .report_every = 2}};
}

// Models that nobody trains: what one gains its partner loses.
TEST(Adpsgd, ExchangesKeepTheSumAndBringModelsTogether) {
  for (const std::string codec : {"fp32", "int8"}) {
    SCOPED_TRACE(codec);
    TestJob::Config config = adpsgd_job(6, 30);
    config.codec = {{"kind", {codec}}};
    if (codec != "fp32") config.codec.push_back({"error_feedback", {false}});
    double sum = 0;
    for (std::uint32_t k = 0; k < 6; ++k) {
      config.learners[k] = {.slope = 0, .start = float(k * k), .rate = 0, .buffers = 0};
      sum += double(k * k);
    }
    config.takes = [](Rank rank) { return int(rank) * 2; };
    std::vector<float> reported;
    config.score = [&](const std::vector<float>& model) {
      reported = model;
      return Evaluation{};
    };
    auto job = TestJob::ended(config);
    ASSERT_EQ(job.finished.size(), 6u);
    EXPECT_NEAR(job.params(0)[3], sum / 6, 1e-4);
    EXPECT_EQ(job.params(5), job.params(0));
    // Rank 0's own model, before the mean of all: it began with 0, the mean is 9.17.
    EXPECT_NEAR(reported[3], sum / 6, 2.5);
    EXPECT_GT(job.records[std::pair(0u, std::string("exchange_s"))].size(), 10u);
    EXPECT_TRUE(job.records[std::pair(1u, std::string("exchange_s"))].empty());  // passive
  }
}

TEST(Adpsgd, EachStepsAtItsOwnPaceToTheOptimum) {
  constexpr Round kRounds = longhaul::testing::kGate ? 75 : 150;
  for (const char* graph : {"complete", "ring"}) {
    TestJob::Config config = adpsgd_job(5, kRounds, {{"graph", {std::string(graph)}}});
    for (auto& learner : config.learners) learner.target = 3;
    config.takes = [](Rank rank) { return rank == 2 ? 12 : 0; };
    auto job = TestJob::ended(config);
    expect_no_errors(job);
    ASSERT_EQ(job.finished.size(), 5u);
    std::uint64_t steps = 0;
    for (const auto& [rank, taken] : job.steps) steps += taken;
    EXPECT_GE(steps, 5 * kRounds);  // a round is five
    EXPECT_LT(job.steps[2], job.steps[0] / 2);
    EXPECT_NEAR(job.params(4)[0], 3, 0.05);
    for (Rank rank = 0; rank < 5; ++rank) {
      EXPECT_EQ(job.node(rank).strategy().rounds_done(), kRounds);
      EXPECT_EQ(job.params(rank), job.params(0));
    }
  }
}

TEST(Adpsgd, OneWorkerIsPlainTrainingBitForBit) {
  TestJob::Config config = adpsgd_job(1, 20);
  auto alone = TestJob::ended(config);
  Quadratic plain(8, config.learners[0]);
  for (int step = 0; step < 20; ++step) ASSERT_TRUE(plain.step(LocalStep{}));
  EXPECT_EQ(alone.params(0), std::vector<float>(plain.params().begin(), plain.params().end()));
}

TEST(Adpsgd, TheTargetOfTheSeniorsModelEndsTheRun) {
  TestJob::Config config = adpsgd_job(4, 1000);
  config.stop.target_accuracy = 0.9;
  config.score = [](const std::vector<float>& model) {
    return Evaluation{.accuracy = model[0] < 6 ? 1.0 : 0.0};
  };
  auto job = TestJob::ended(config);
  ASSERT_EQ(job.finished.size(), 4u);
  const Round ended = job.node(0).strategy().rounds_done();
  EXPECT_LT(ended, 100u);
  for (Rank rank = 1; rank < 4; ++rank) EXPECT_EQ(job.node(rank).strategy().rounds_done(), ended);
  EXPECT_EQ(job.reports.front(), 1u);  // every second round, counted from 0
}

// The lowest rank counts the rounds; its loss, too, is survived.
TEST(Adpsgd, TwoLossesAtAnyMomentStopNobody) {
  constexpr int kEvery = longhaul::testing::kGate ? 83 : longhaul::testing::kStride > 1 ? 53 : 3;
  for (int at = 1; at < 500; at += kEvery) {
    SCOPED_TRACE(at);
    TestJob::Config config = adpsgd_job(6, 12);
    config.takes = [](Rank rank) { return int(rank * 5 % 7); };
    TestJob job(config);
    const Rank first = Rank(at % 6), second = Rank((at + 1 + at / 6 % 5) % 6);
    job.crash_at(at, first);
    job.crash_at(at + at % 37, second);
    job.run();
    expect_ended_alike(job, 12);
  }
}

TEST(Adpsgd, SavingAndLoadingAfterEveryEventEqualsGoingOn) {
  EXPECT_EQ(testing::changed_by_saving(adpsgd_job(4, 4, {{"steps", {std::int64_t{2}}}})), "");
}

}  // namespace
}  // namespace longhaul::sync
