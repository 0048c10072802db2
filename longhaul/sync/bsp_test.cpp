// Invariants:
// Equals one node with the batches of all (1e-5).
// All x are bit-identical after every round; over every overlay: tests/conformance_test.cpp.
// One node is plain training, bit-identical (codec fp32).
// A returned node is bit-identical: tests/return_test.cpp.
#include <gtest/gtest.h>

#include "longhaul/sync/testing/test_job.h"

namespace longhaul::sync {
namespace {

using testing::Quadratic;
using testing::TestJob;

std::vector<Quadratic::Config> unequal(std::uint32_t n, std::uint64_t buffers = 0) {
  auto all = testing::learners(n, {.start = 1, .rate = 0.1f, .momentum = 0.5f, .buffers = buffers});
  for (std::uint32_t k = 0; k < n; ++k) all[k].samples = k + 1;
  return all;
}

// A quadratic of B samples at target t and one of B' at t' are one of B + B' at the weighted mean.
TEST(Bsp, R3_1_EqualsOneNodeWithTheBatchesOfAll) {
  const auto learners = unequal(4);
  double target = 0, samples = 0;
  for (const auto& l : learners) {
    target += double(l.target) * double(l.samples);
    samples += double(l.samples);
  }
  Quadratic::Config one = learners[0];
  one.target = float(target / samples);
  TestJob many({.learners = learners, .stop = {.max_rounds = 20}});
  TestJob single({.learners = {one}, .stop = {.max_rounds = 20}});
  many.run();
  single.run();
  ASSERT_EQ(many.finished.size(), 4u);
  testing::expect_near(many.params(2), single.params(0), 1e-5);
}

TEST(Bsp, R3_2_AllParametersAndBuffersAreBitEqualAfterEveryRound) {
  TestJob job({.learners = unequal(5, /*buffers=*/3), .stop = {.max_rounds = 7}});
  std::uint64_t compared = 0;
  job.after_event = [&] {
    const Round round = job.node(0).strategy().rounds_done();
    for (Rank rank = 1; rank < 5; ++rank)
      if (job.node(rank).strategy().rounds_done() != round) return;
    // Gradients of the next round count in the buffers at once: compare those at the end.
    const std::size_t length = job.finished.size() == 5 ? 8 : 5;
    for (Rank rank = 1; rank < 5; ++rank) {
      const auto a = job.params(0), b = job.params(rank);
      ASSERT_TRUE(std::equal(a.begin(), a.begin() + long(length), b.begin())) << round;
      ++compared;
    }
  };
  job.run();
  EXPECT_EQ(job.finished.size(), 5u);
  EXPECT_GT(compared, 20u);
}

TEST(Bsp, R3_3_OneNodeIsPlainTrainingBitForBit) {
  const auto learners = unequal(1, 2);
  auto job = TestJob::ended({.learners = learners, .stop = {.max_rounds = 30}});
  Quadratic plain(8, learners[0]);
  for (int i = 0; i < 30; ++i) ASSERT_TRUE(plain.step(LocalStep{}));
  EXPECT_EQ(job.params(0), std::vector<float>(plain.params().begin(), plain.params().end()));
}

TEST(Bsp, StopsWhenAllTogetherHaveUsedMaxSamples) {
  for (std::uint64_t buffers : {0u, 3u}) {
    auto job = TestJob::ended({.learners = unequal(3, buffers),  // 1 + 2 + 3 samples a step
                               .stop = {.max_rounds = 100, .max_samples = 54}});
    for (Rank rank = 0; rank < 3; ++rank) {
      EXPECT_EQ(job.finished[rank], 1);
      EXPECT_EQ(job.node(rank).strategy().rounds_done(), 9u);
    }
  }
}

TEST(Bsp, ReportsAtTheCadenceAndStopsAtTheTarget) {
  TestJob job({.learners = unequal(2),
               .stop = {.target_accuracy = 0.9, .max_rounds = 100, .report_every = 4, .lag = 2},
               .score = [](const std::vector<float>& x) {
                 return Evaluation{.accuracy = x[0] < 0.9f ? 0.95 : 0.1};
               }});
  job.run();
  ASSERT_FALSE(job.reports.empty());
  for (std::size_t i = 0; i < job.reports.size(); ++i) EXPECT_EQ(job.reports[i], 4 * i + 3);
  EXPECT_EQ(job.finished.size(), 2u);
  const Round verdict_on = job.reports.back();
  for (Rank rank = 0; rank < 2; ++rank)
    EXPECT_EQ(job.node(rank).strategy().rounds_done(), verdict_on + 2 + 1);
}

TEST(Bsp, AGradientThatIsNotFiniteEndsTheRunNamingSiteRoundAndRemedy) {
  auto learners = unequal(2);
  learners[1].target = std::numeric_limits<float>::infinity();
  auto job = TestJob::ended({.learners = learners});
  ASSERT_EQ(job.failures.size(), 1u);
  const std::string why = job.failures[1];
  for (const char* part : {"bsp", "round 0", "site1", "not finite", "lower [optimizer] rate"})
    EXPECT_NE(why.find(part), std::string::npos) << why;
  EXPECT_TRUE(job.finished.empty());
  EXPECT_EQ(job.node(1).strategy().waiting_for(), "");
}

TEST(Bsp, RecordsTheLossOfEveryRoundOnEveryNode) {
  auto job = TestJob::ended({.learners = unequal(2), .stop = {.max_rounds = 3}});
  for (Rank rank = 0; rank < 2; ++rank) {
    const auto& losses = job.records[{rank, "train_loss"}];
    ASSERT_EQ(losses.size(), 3u);
    for (Round round = 0; round < 3; ++round) EXPECT_EQ(losses[round].first, round);
    EXPECT_EQ((job.records[{rank, "wait_s"}].size()), 3u);
  }
}

TEST(Bsp, SavingAndLoadingAfterAnyEventChangesNothing) {
  EXPECT_EQ(testing::changed_by_saving({.learners = unequal(3, 2), .stop = {.max_rounds = 4}}), "");
}

}  // namespace
}  // namespace longhaul::sync
