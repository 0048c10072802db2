// Invariants:
// - Tiers are equal parts of the workers by the time of their first update; equal times by rank.
// - A tier's share is T_{M+1-m} / T; shares sum to 1.
// - The model is the mean of the tiers' models, each the sample-weighted mean of its workers' last.
// - A tier waits for its own workers only.
// - One worker is local training with the proximal term: fedprox.
#include "longhaul/sync/fedat.h"

#include <gtest/gtest.h>

#include "longhaul/sync/testing/server_and_workers.h"
#include "longhaul/sync/testing/test_job.h"

namespace longhaul::sync {
namespace {

using namespace std::chrono_literals;
using testing::ServerAndWorkers;
using testing::TestJob;

TestJob::Config fedat_job(std::uint32_t n, std::vector<Setting> settings) {
  settings.push_back({"steps", {std::int64_t{3}}});
  return {.sync = "fedat",
          .settings = std::move(settings),
          .learners = testing::learners(n, {.rate = 0.05f, .momentum = 0.5f, .buffers = 1}),
          .stop = {.max_rounds = 6}};
}

TEST(FedAt, TiersAreEqualPartsOfWorkersByTime) {
  using Tiers = std::vector<std::vector<Rank>>;
  const std::map<Rank, Time> times{{0, 9s}, {1, 2s}, {2, 5s}, {3, 2s}, {4, 7s}};
  EXPECT_EQ(fedat::cut_tiers(times, 2), (Tiers{{1, 2, 3}, {0, 4}}));
  EXPECT_EQ(fedat::cut_tiers(times, 4), (Tiers{{1, 3}, {2}, {4}, {0}}));
  EXPECT_EQ(fedat::cut_tiers({{7, 1s}, {8, 1s}}, 2), (Tiers{{7}, {8}}));
}

TEST(FedAt, SlowTiersGetTheSharesThatFastOnesEarned) {
  EXPECT_EQ(fedat::tier_shares({6, 3, 1}), (std::vector<double>{0.1, 0.3, 0.6}));
  EXPECT_EQ(fedat::tier_shares({5}), std::vector<double>{1});
}

// By the server's clock, from the model out to the update in; weights are samples.
TEST(FedAt, TheModelIsTheSharedMeanOfTheTiersModels) {
  ServerAndWorkers<FedAt> job({.tiers = 2}, 4, 1);
  job.start(1);
  const auto at = [&](Time now, Rank rank, float x, std::uint64_t samples) {
    job.node(0).context.now = now;
    job.push(rank, {x}, samples);
  };
  at(1s, 3, 2, 10);
  at(2s, 1, 4, 30);
  at(8s, 0, 10, 10);
  EXPECT_TRUE(job.records("tier").empty());  // nobody knows yet whose tier is whose
  at(9s, 2, 20, 10);
  const double fast = (10 * 2 + 30 * 4) / 40.0, slow = 15;
  EXPECT_EQ(job.records("tier"), (std::vector<double>{1, 2}));
  EXPECT_FLOAT_EQ(job.model()[0], float((fast + slow) / 2));  // two rounds each, from one
  at(10s, 1, 6, 1);
  EXPECT_EQ(job.records("tier").size(), 2u);
  at(11s, 3, 8, 1);
  EXPECT_FLOAT_EQ(job.model()[0], float(2.0 / 5 * 7 + 3.0 / 5 * slow));
  EXPECT_EQ(job.records("staleness"), (std::vector<double>{0, 0, 0, 0, 0, 0}));
}

TEST(FedAt, ATierLoopsAlone) {
  TestJob::Config config = fedat_job(4, {{"tiers", {std::int64_t{2}}}});
  config.takes = [](Rank rank) { return rank < 2 ? 10 * int(rank) : 80; };
  auto job = TestJob::ended(config);
  EXPECT_EQ(job.finished.size(), 4u);
  EXPECT_GT(job.steps[0], 3 * job.steps[2]);
  EXPECT_LE(job.steps[0], job.steps[1] + 3);
}

TEST(FedAt, OneWorkerIsLocalTrainingOfThatProximalTerm) {
  TestJob::Config tied = fedat_job(1, {{"prox", {0.4}}});
  tied.learners = testing::learners(1, {.rate = 0.05f});
  TestJob::Config prox = tied;
  prox.sync = "fedprox";
  prox.settings = {{"steps", {std::int64_t{3}}}, {"mu", {0.4}}};
  auto a = TestJob::ended(tied), b = TestJob::ended(prox);
  for (std::size_t i = 0; i < 8; ++i) EXPECT_NEAR(a.params(0)[i], b.params(0)[i], 1e-4) << i;
}

TEST(FedAt, ALostWorkerIsNotWaitedFor) {
  ServerAndWorkers<FedAt> halves({.tiers = 1}, 3, 1);
  halves.start(1);
  for (Rank rank : {0u, 1u}) halves.push(rank, {2});
  halves.lose(2);  // before tiers are cut
  EXPECT_EQ(halves.records("tier").size(), 1u);
  halves.push(0, {2});
  halves.lose(1);
  EXPECT_EQ(halves.records("tier").size(), 2u);
  for (int moment = 20; moment < 80; moment += 7) {
    TestJob job(fedat_job(4, {{"tiers", {std::int64_t{2}}}}));
    job.crash_at(moment, 2);
    job.run();
    for (Rank rank : {0u, 1u, 3u}) EXPECT_EQ(job.finished[rank], 1) << moment;
    EXPECT_EQ(job.params(0), job.params(3));
  }
}

TEST(FedAt, AllEndAlikeAndSavingChangesNothing) {
  auto job = TestJob::ended(fedat_job(5, {}));
  for (Rank rank = 1; rank < 5; ++rank) EXPECT_EQ(job.params(rank), job.params(0));
  EXPECT_EQ(job.node(3).strategy().rounds_done(), 6u);
  EXPECT_EQ(changed_by_saving(fedat_job(5, {})), "");
}

}  // namespace
}  // namespace longhaul::sync
