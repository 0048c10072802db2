// Invariants, with the tests of each:
//  1. Every round is a partition, the same on all workers: Schedule.Inv1_*, ScheduleSwitch.*.
//  2. A round keeps the mean of all models (1e-6): DsSync.Inv2_*, Shuffle.Inv2_*.
//  3. Regular grids and digits reach the mean in d rounds, in any order: Schedule.Inv3_*,
//     DsSync.Inv3_*.
//  4. Knowledge spreads by b, b^2, ... n: 16 workers in 2, 4, at most 5 rounds: Schedule.Inv4_*.
//  5. A grid of 10 comes closer to the mean by six in two rounds: Schedule.Inv5_*.
//  6. Random groups shrink squared disagreement by (n - b) / (b (n - 1)): Schedule.Inv6_*; within
//     2 %: nightly.
//  7. Noise of variance 1 moves each of 16 models in every round. Their mean square distance from
//     the mean model just after a round: Schedule.Inv7_*.
//         grid 4x4  radix 2^4  random, b = 4  random, b = 2  topology, 4 sites of 4
//           0.1875     0.6875         0.2344         0.8203                    0.66
//  8. One group of all is bsp, also with momentum: DsSync.Inv8_*.
//  9. Bytes per worker and round: Shuffle.Inv9_*.
// 10. Saved and loaded after any event: bit-identical: DsSync.Inv10_*, Resume.*.
// 11. Optimiser state: different without sync_state, equal after a cycle with it: DsSync.Inv11_*.
// 12. Averaging equal models changes no bit: Shuffle.Inv12_*.
// 13. Simulator and sockets: bit-identical: Sockets.*.
// Sensing of slow sites: SiteRates.*, Schedule.SitesWithByes*, ScheduleSwitch.*Plan*; in a run:
// Shuffle.ASite*, Shuffle.Sensing*. Return of a lost worker: tests/return_test.cpp,
// ScheduleSwitch.*.
// Schedule, ScheduleSwitch and SiteRates: shuffle/; Shuffle: tests/shuffle_test.cpp; Resume and
// Sockets: tests/.
#include "longhaul/sync/ds_sync.h"

#include <gtest/gtest.h>

#include <cmath>

#include "longhaul/base/testing/effort.h"
#include "longhaul/base/testing/result.h"
#include "longhaul/sync/testing/test_job.h"

namespace longhaul::sync {
namespace {

using testing::Quadratic;
using testing::TestJob;

constexpr const char* kShuffles[] = {"grid", "radix", "random", "topology"};

std::vector<Setting> shuffling(std::string schedule, std::int64_t group_size = 0,
                               std::int64_t steps = 1) {
  return {{"schedule", {std::move(schedule)}}, {"group_size", {group_size}}, {"steps", {steps}}};
}

TestJob::Config shuffled_job(std::uint32_t n, std::vector<Setting> settings, Round rounds) {
  return {.sync = "ds_sync",
          .settings = std::move(settings),
          .learners = testing::learners(n, {.rate = 0.1f, .momentum = 0.5f, .buffers = 2}),
          .stop = {.max_rounds = rounds, .report_every = 3}};
}

// Models that do not train, and lie far apart.
TestJob::Config still_job(std::uint32_t n, std::vector<Setting> settings, Round rounds) {
  TestJob::Config config = shuffled_job(n, std::move(settings), rounds);
  for (std::uint32_t k = 0; k < n; ++k)
    config.learners[k] = {.slope = 0, .start = float(1 + k * k * 37 % 64), .rate = 0};
  return config;
}

// The first value of every model after each round.
std::vector<std::vector<double>> after_rounds(TestJob& job, std::uint32_t n, Round rounds) {
  std::vector<std::vector<double>> after(rounds + 1, std::vector<double>(n, 0));
  job.after_event = [&] {
    for (Rank rank = 0; rank < n; ++rank) {
      const Round round = job.node(rank).strategy().rounds_done();
      if (job.finished.empty() && after.at(round)[rank] == 0)
        after[round][rank] = double(job.learner(rank).params()[0]);
    }
  };
  job.run();
  job.after_event = {};
  expect_no_errors(job);
  EXPECT_EQ(job.finished.size(), n);
  return after;
}

double mean_of(const std::vector<double>& x) {
  double sum = 0;
  for (const double one : x) sum += one;
  return sum / double(x.size());
}

// Invariant 2.
TEST(DsSync, Inv2_ARoundKeepsTheMeanOfAllModels) {
  for (const char* schedule : kShuffles) {
    for (const std::uint32_t n : {4u, 7u, 10u}) {
      SCOPED_TRACE(std::string(schedule) + " of " + std::to_string(n));
      TestJob job(still_job(n, shuffling(schedule, 3), 6));
      const auto after = after_rounds(job, n, 6);
      for (const auto& models : after)
        EXPECT_NEAR(mean_of(models), mean_of(after[0]), 1e-6 * mean_of(after[0]));
      EXPECT_NEAR(job.params(0)[0], mean_of(after[0]), 1e-6 * mean_of(after[0]));
    }
  }
}

// Invariant 3, by the whole strategy: `published` is what four workers have.
TEST(DsSync, Inv3_AGridReachesTheMeanInTwoRounds) {
  for (const std::uint32_t n : {4u, 9u}) {
    TestJob job(still_job(n, {}, 3));
    const auto after = after_rounds(job, n, 3);
    EXPECT_NE(after[1].front(), after[1].back());
    for (const double one : after[2]) EXPECT_NEAR(one, mean_of(after[0]), 1e-4);
  }
  TestJob job(still_job(4, {}, 1));
  const auto after = after_rounds(job, 4, 1);
  EXPECT_EQ(after[1][0], mean_of({after[0][0], after[0][1]})) << "{0,1} {2,3} first";
}

// Invariant 8: with one group of all, averaging models is averaging gradients.
TEST(DsSync, Inv8_OneGroupOfAllIsBspWithMomentumToo) {
  for (const char* schedule : {"grid", "random"}) {
    for (const float momentum : {0.0f, 0.9f}) {
      TestJob::Config config =
          shuffled_job(5, shuffling(schedule, 5), longhaul::testing::kGate ? 12 : 50);
      for (auto& learner : config.learners) learner.momentum = momentum, learner.buffers = 0;
      auto job = TestJob::ended(config);
      config.sync = "bsp";
      config.settings = {};
      auto bsp = TestJob::ended(config);
      for (std::size_t i = 0; i < 8; ++i)
        EXPECT_NEAR(job.params(2)[i], bsp.params(2)[i], 1e-6 * std::abs(double(bsp.params(2)[i])));
    }
  }
}

// The velocity of a quadratic learner, by one more step's work.
std::vector<float> optimizer_state_of(TestJob& job, Rank rank) {
  const auto answer = job.any_learner(rank).step(OptimizerState{});
  EXPECT_TRUE(answer);
  return answer->outputs;
}

// Invariant 11: off, states differ after a round; on, they are equal after a cycle without steps,
// which a single group is.
TEST(DsSync, Inv11_OptimizerStateIsAveragedIfAskedFor) {
  for (const bool synced : {false, true}) {
    TestJob::Config config = shuffled_job(4, shuffling("grid", 4), 6);
    for (auto& learner : config.learners) learner.momentum = 0.9f;
    config.settings.push_back({"sync_state", {synced}});
    auto job = TestJob::ended(config);
    ASSERT_EQ(job.finished.size(), 4u);
    const auto first = optimizer_state_of(job, 0), last = optimizer_state_of(job, 3);
    ASSERT_FALSE(first.empty());
    EXPECT_EQ(first == last, synced);
  }
}

// Learners that stand at their optimum keep the velocity that they are given.
TEST(DsSync, Inv11_StateIsEqualAfterAFullCycleWithoutStepsBetween) {
  TestJob::Config config = shuffled_job(4, {{"sync_state", {true}}}, 2);
  config.make_learner = [](Rank rank) -> std::unique_ptr<Learner> {
    auto learner = std::make_unique<Quadratic>(
        8, Quadratic::Config{.target = 5, .slope = 0, .start = 5, .rate = 0, .momentum = 1});
    EXPECT_TRUE(learner->step(OptimizerState{std::vector<float>(8, float(rank * rank))}));
    return learner;
  };
  auto job = TestJob::ended(config);
  for (Rank rank = 0; rank < 4; ++rank)
    EXPECT_EQ(optimizer_state_of(job, rank), std::vector<float>(8, 3.5f)) << rank;
}

TEST(DsSync, StateIsSavedWithTheRest) {
  TestJob::Config config = shuffled_job(4, shuffling("grid", 2), 3);
  config.settings.push_back({"sync_state", {true}});
  config.settings.push_back({"swa_fraction", {0.5}});
  EXPECT_EQ(testing::changed_by_saving(config), "");
  EXPECT_EQ(testing::changed_by_saving(
                shuffled_job(4, {{"schedule", {"topology"}}, {"sense", {true}}}, 5)),
            "");
}

TEST(DsSync, OnlyATopologyCanSense) {
  for (const char* schedule : {"topology", "grid"}) {
    auto job = TestJob::ended(
        shuffled_job(4, {{"schedule", {std::string(schedule)}}, {"sense", {true}}}, 3));
    EXPECT_EQ(job.finished.size(), 4u);
    const bool senses = schedule == std::string("topology");
    EXPECT_EQ(job.records.contains({0, "slow_sites"}), senses);
  }
}

// The final model is the mean over the last rounds of the mean model; of one group that is the
// model. (1 - 0.9) * 10 is a little less than 1.
TEST(DsSync, SwaAveragesTheLastRounds) {
  struct Last {
    double fraction;
    std::size_t rounds, first;
  };
  for (const auto& [fraction, rounds, first] : {Last{0.5, 8, 4}, Last{0.9, 10, 1}}) {
    TestJob::Config config = shuffled_job(4, shuffling("grid", 4), rounds);
    config.settings.push_back({"swa_fraction", {fraction}});
    config.stop.report_every = 1;
    std::vector<double> models;  // of each round
    config.score = [&](const std::vector<float>& model) {
      models.push_back(double(model[0]));
      return Evaluation{};
    };
    auto job = TestJob::ended(config);
    ASSERT_EQ(models.size(), rounds);
    double mean = 0;
    for (std::size_t k = first; k < rounds; ++k) mean += models[k] / double(rounds - first);
    EXPECT_GT(std::abs(mean - models.back()), 0.01);
    for (Rank rank = 0; rank < 4; ++rank) EXPECT_NEAR(job.params(rank)[0], mean, 1e-5) << fraction;
  }
}

TEST(DsSync, RecordsTheGroupOfEachRound) {
  auto job = TestJob::ended(shuffled_job(9, shuffling("grid", 3), 4));
  const auto groups = job.records.at({4, "group"});
  ASSERT_EQ(groups.size(), 4u);
  EXPECT_EQ(groups[0].second, 1) << "the second row";
  EXPECT_EQ(groups[1].second, 1) << "the second column";
  EXPECT_EQ(job.records.at({4, "group_size"})[0].second, 3);
}

TEST(DsSync, BuffersAreAveragedInEveryRoundOrAtTheEnd) {
  for (const bool averaged : {true, false}) {
    TestJob::Config config = shuffled_job(4, shuffling("published"), 4);
    config.settings.push_back({"average_buffers", {averaged}});
    TestJob job(config);
    float last = 0;
    job.after_event = [&] {
      if (job.finished.empty() && job.node(0).strategy().rounds_done() == 2)
        last = job.params(0)[7];
    };
    job.run();
    if (!averaged) EXPECT_EQ(last, 3) << "its own steps, one of them of the next round";
    if (averaged) EXPECT_GT(last, 4);
    for (Rank rank = 0; rank < 4; ++rank) EXPECT_NEAR(job.params(rank)[7], 4 * (1 + 3.5), 1e-3);
  }
}

TEST(DsSync, TheFinalModelMayBeThatOfTheLowestRank) {
  TestJob::Config config = still_job(6, shuffling("random", 2), 1);
  config.settings.push_back({"final", {std::string("rank0")}});
  TestJob job(config);
  const auto after = after_rounds(job, 6, 1);
  EXPECT_NE(after[1][0], after[1][5]);
  for (Rank rank = 0; rank < 6; ++rank) EXPECT_EQ(job.params(rank)[0], float(after[1][0]));
}

// Also where the senior worker dies while its model is on its way.
TEST(DsSync, WithoutTheLowestRankTheNextOneGivesTheFinalModel) {
  for (int at = 0; at<60; at += longhaul::testing::kStride> 1 ? 3 : 1) {
    SCOPED_TRACE(at);
    TestJob::Config config = still_job(4, shuffling("random", 2), 1);
    config.settings.push_back({"final", {std::string("rank0")}});
    TestJob job(config);
    job.crash_at(at, 0);
    job.run();
    EXPECT_TRUE(job.failures.empty()) << job.failures.begin()->second;
    for (const Rank rank : {1u, 2u, 3u}) {
      ASSERT_EQ(job.finished[rank], 1) << rank << ": " << job.node(rank).waiting_for();
      EXPECT_EQ(job.params(rank), job.params(1));
    }
  }
}

// Samples are averaged as models are: the reporter knows how many all have used.
TEST(DsSync, EndsWithTheRoundInWhichTheReporterHasCountedEnough) {
  TestJob::Config config = shuffled_job(4, {}, 1000);
  config.stop = {.max_rounds = 1000, .max_samples = 30, .report_every = 2, .lag = 1};
  auto job = TestJob::ended(config);
  // 4 in a round: 32 after round 7, which is reported; it takes effect a round later.
  for (Rank rank = 0; rank < 4; ++rank)
    EXPECT_EQ(job.node(rank).strategy().rounds_done(), 9u) << rank;
}

Place place_of(std::uint32_t workers) {
  Place place;
  Members members;
  for (std::uint32_t i = 0; i < workers; ++i) members.push_back({"site" + std::to_string(i)});
  place.members = std::make_shared<const Members>(members);
  return place;
}

TEST(DsSync, SettingsThatCannotBeAreRefusedWithTheRemedy) {
  const auto why = [](const DsSync::Config& config, std::uint32_t workers) {
    const Status status = DsSync::check(config, place_of(workers));
    return status ? "" : status.error().what;
  };
  EXPECT_EQ(why({}, 1), "");
  EXPECT_EQ(why({.group_size = 5}, 5), "");
  EXPECT_TRUE(says(why({.group_size = 6}, 5),
                   "[sync] group_size = 6: expected 2 to the number of workers, which is 5"));
  EXPECT_NE(why({.group_size = 1}, 5), "");
  EXPECT_TRUE(says(why({.min_sites = 6}, 5), "min_sites = 6"));
}

// Workers see the new view in different rounds, whichever moment it is; a second loss may come
// before all have told theirs.
TEST(DsSync, TheSurvivorsGoOnInGroupsOfTheirOwn) {
  constexpr int kEvery = longhaul::testing::kGate ? 900 : longhaul::testing::kStride > 1 ? 211 : 5;
  int number = 0;
  for (const char* schedule : kShuffles) {
    // In the gate each begins at another moment.
    for (int at = longhaul::testing::kGate ? 203 * number++ : 0; at < 900; at += kEvery) {
      TestJob::Config config = shuffled_job(9, shuffling(schedule, 3), 12);
      config.takes = [](Rank rank) { return int(rank * 5 % 7) * 3; };
      SCOPED_TRACE(std::string(schedule) + " " + std::to_string(at));
      TestJob job(config);
      job.crash_at(at, 3);
      job.crash_at(at + at % 83, 5);
      job.run();
      expect_ended_alike(job, 12);
    }
  }
}

TEST(DsSync, WithFewerSitesThanAskedForTheRunEnds) {
  TestJob::Config config = shuffled_job(4, {}, 1000);
  config.settings.push_back({"min_sites", {std::int64_t{4}}});
  TestJob job(config);
  job.crash_at(50, 2);
  job.run();
  ASSERT_EQ(job.failures.size(), 3u);
  EXPECT_TRUE(says(job.failures.begin()->second, "3 of 4 sites are left"));
}

TEST(DsSync, AllSchedulesEndWithOneModelNearTheOptimum) {
  constexpr Round kRounds = longhaul::testing::kGate ? 15 : 30;
  for (const char* schedule : kShuffles) {
    for (const std::uint32_t n : {1u, 2u, 3u, 5u, 9u}) {
      if (longhaul::testing::kGate && (n == 2 || n == 9)) continue;
      SCOPED_TRACE(std::string(schedule) + " of " + std::to_string(n));
      auto job = TestJob::ended(shuffled_job(n, shuffling(schedule, 0, 2), kRounds));
      expect_no_errors(job);
      ASSERT_EQ(job.finished.size(), n);
      double mean = 0;
      for (Rank rank = 0; rank < n; ++rank) mean += double(rank * rank) / n;
      for (Rank rank = 0; rank < n; ++rank) {
        EXPECT_EQ(job.params(rank), job.params(0));
        EXPECT_EQ(job.node(rank).strategy().rounds_done(), kRounds);
        EXPECT_EQ(job.steps[rank], 2 * kRounds);
      }
      EXPECT_NEAR(job.params(0)[0], mean, 0.01 * n * n);
      // Buffers grow by 1 + k^2 in each step of rank k; their mean is kept.
      EXPECT_NEAR(job.params(0)[7], 2 * double(kRounds) * (1 + mean), 1e-2);
    }
  }
}

TEST(DsSync, Inv10_SavingAndLoadingAfterEveryEventEqualsGoingOn) {
  for (const char* schedule : kShuffles)
    EXPECT_EQ(testing::changed_by_saving(shuffled_job(4, shuffling(schedule, 2, 2), 2)), "");
}

}  // namespace
}  // namespace longhaul::sync
