#include "longhaul/sync/noloco.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

#include "longhaul/base/testing/effort.h"
#include "longhaul/sync/testing/test_job.h"

// Invariants:
// 1  Each worker is in one group of a round, of two, or of three in one group of an odd number of
//    workers; all members draw the same group.
// 2  With all workers in one group it is diloco with [outer] kind = "momentum", rate = alpha,
//    momentum = beta.
// 3  Random pairs contract the variance of the models by (n - 2) / (2 (n - 1)) a round, for an even
//    number n of workers.
// 4  alpha = 1, beta = 0 without training: phi is the mean of the group, and the mean of phi over
//    all workers stays.
// 5  Any losses, saving and loading: all workers end with one model after the same rounds.
namespace longhaul::sync {
namespace {

using testing::expect_near;
using testing::TestJob;

TestJob::Config noloco_job(std::uint32_t n, std::vector<Setting> settings, Round rounds) {
  settings.push_back({"steps", {std::int64_t{2}}});
  return {.sync = "noloco",
          .settings = std::move(settings),
          .learners = testing::learners(n, {.rate = 0.1f, .momentum = 0.5f, .buffers = 2}),
          .stop = {.max_rounds = rounds, .report_every = 3}};
}

TEST(NoLoCo, Inv1_EachWorkerIsInOneGroup) {
  for (std::uint32_t n = 1; n <= 9; ++n) {
    std::vector<Rank> workers;
    for (Rank rank = 0; rank < n; ++rank) workers.push_back(3 * rank + 1);
    std::set<std::vector<Rank>> seen;
    for (Round round = 0; round < 40; ++round) {
      std::size_t threes = 0, in_groups = 0;
      std::set<std::vector<Rank>> groups;
      for (const Rank rank : workers) {
        const std::vector<Rank> group = noloco::group_of(rank, workers, 7, round, 2);
        EXPECT_TRUE(std::ranges::binary_search(group, rank));
        groups.insert(group);
      }
      for (const auto& group : groups) {
        in_groups += group.size();
        threes += group.size() == 3;
        EXPECT_LE(group.size(), 3u);
        EXPECT_GE(group.size(), std::min<std::size_t>(n, 2));
      }
      EXPECT_EQ(in_groups, n);
      EXPECT_EQ(threes, n > 1 && n % 2 == 1 ? 1u : 0u) << n;
      seen.insert(groups.begin(), groups.end());
    }
    if (n == 6) EXPECT_EQ(seen.size(), 15u) << "all pairs meet";
  }
}

TEST(NoLoCo, Inv2_OneGroupIsDiLoCoWithMomentum) {
  for (const std::uint32_t n : {2u, 3u}) {
    TestJob::Config config = noloco_job(n, {{"alpha", {0.7}}, {"beta", {0.5}}}, 12);
    auto job = TestJob::ended(config);
    config.sync = "diloco";
    config.settings = {{"steps", {std::int64_t{2}}}};
    config.outer = {{"kind", {std::string("momentum")}}, {"rate", {0.7}}, {"momentum", {0.5}}};
    auto diloco = TestJob::ended(config);
    expect_no_errors(job);
    expect_near(job.params(0), diloco.params(0), 1e-5);
  }
}

TEST(NoLoCo, Inv3_RandomPairsContractTheVariance) {
  for (const std::uint32_t n : {4u, 8u, 12u}) {
    std::vector<Rank> workers;
    std::vector<double> x;
    for (Rank rank = 0; rank < n; ++rank) {
      workers.push_back(rank);
      x.push_back(std::sin(1 + 7.0 * rank));
    }
    double mean = 0, before = 0, after = 0;
    for (const double value : x) mean += value / n;
    constexpr Round kRounds = 4000;
    for (Round round = 0; round < kRounds; ++round) {
      for (const Rank rank : workers) {
        const auto group = noloco::group_of(rank, workers, 1, round, 0);
        double of_group = 0;
        for (const Rank member : group) of_group += x[member] / double(group.size());
        before += (x[rank] - mean) * (x[rank] - mean);
        after += (of_group - mean) * (of_group - mean);
      }
    }
    const double expected = (n - 2) / (2.0 * (n - 1));
    EXPECT_NEAR(after / before, expected, 0.05 * expected) << n;
  }
}

TEST(NoLoCo, Inv4_WithoutTrainingAGroupTakesItsMean) {
  constexpr std::uint32_t kWorkers = 6;
  TestJob::Config config = noloco_job(kWorkers, {{"alpha", {1.0}}, {"beta", {0.0}}}, 9);
  double mean = 0;
  for (std::uint32_t k = 0; k < kWorkers; ++k) {
    config.learners[k] = {.slope = 0, .start = float(k * k), .rate = 0, .buffers = 0};
    mean += double(k * k) / kWorkers;
  }
  TestJob job(config);
  std::map<Round, std::map<Rank, float>> after;
  job.after_event = [&] {
    for (Rank rank = 0; rank < kWorkers; ++rank)
      after[job.node(rank).strategy().rounds_done()].try_emplace(rank, job.params(rank)[0]);
  };
  job.run();
  expect_ended_alike(job, 9);
  for (Round round = 0; round + 1 < 9; ++round) {
    double sum = 0;
    for (Rank rank = 0; rank < kWorkers; ++rank) {
      const auto group = noloco::group_of(rank, {0, 1, 2, 3, 4, 5}, 1, round, 0);
      double of_group = 0;
      for (const Rank member : group) of_group += double(after[round][member]);
      EXPECT_NEAR(after[round + 1][rank], of_group / double(group.size()), 1e-5) << round;
      sum += double(after[round + 1][rank]);
    }
    EXPECT_NEAR(sum / kWorkers, mean, 1e-4) << round;
  }
}

TEST(NoLoCo, Inv5_AllEndWithOneModelNearTheOptimum) {
  auto job = TestJob::ended(noloco_job(5, {{"alpha", {0.5}}}, 40));
  expect_ended_alike(job, 40);
  EXPECT_NEAR(job.params(0)[0], 6, 1.5);  // the mean of k^2
}

TEST(NoLoCo, Inv5_SavingAndLoadingChangesNothing) {
  for (const std::uint32_t n : {2u, 3u, 4u})
    EXPECT_EQ(testing::changed_by_saving(noloco_job(n, {}, 4)), "") << n;
}

// From one moment of the losses to the next.
constexpr int kMomentsApart = longhaul::testing::kGate         ? 90
                              : longhaul::testing::kStride > 1 ? 97
                                                               : 5;

TEST(NoLoCo, Inv5_TheOthersContinueAfterTwoLossesAtAnyMoment) {
  for (const std::uint32_t n : {5u, 7u}) {
    TestJob::Config config = noloco_job(n, {}, 12);
    config.takes = [](Rank rank) { return int(rank * 5 % 7) * 3; };
    for (int at = 1; at < 500; at += kMomentsApart) {
      SCOPED_TRACE(std::to_string(n) + " at " + std::to_string(at));
      TestJob job(config);
      job.crash_at(at, 3);
      job.crash_at(at + 40, 0);
      job.run();
      expect_ended_alike(job, 12);
    }
  }
}

TEST(NoLoCo, AModelThatIsNotFiniteEndsTheRunWithAReason) {
  TestJob::Config config = noloco_job(3, {}, 1000);
  for (auto& learner : config.learners) learner.rate = 1e6f;
  auto job = TestJob::ended(config);
  ASSERT_FALSE(job.failures.empty());
  EXPECT_NE(job.failures.begin()->second.find("lower [optimizer] rate"), std::string::npos);
}

}  // namespace
}  // namespace longhaul::sync
