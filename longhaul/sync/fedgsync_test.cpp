// Whole jobs of FedGSync, and its worker's half. The server's: fedgsync_server_test.cpp.
#include "longhaul/sync/fedgsync.h"

#include <gtest/gtest.h>

#include <cmath>

#include "longhaul/sync/testing/fedgsync_job.h"
#include "longhaul/sync/testing/test_job.h"

namespace longhaul::sync {
namespace {

using Job = testing::FedGSyncJob;
using testing::TestJob;

TestJob::Config fedgsync_job(std::uint32_t n, std::vector<Setting> settings,
                             std::string sync = "fedgsync") {
  settings.push_back({"steps", {std::int64_t{3}}});
  return {.sync = std::move(sync),
          .settings = std::move(settings),
          .learners = testing::learners(n, {.rate = 0.05f, .buffers = 1}),
          .stop = {.max_rounds = 6}};
}

// mutant: longhaul/sync/fedgsync_server.cpp
//   - w[k] = float(k < length ? double(w[k]) + config_.global_rate * sum[k] : sum[k]);
//   + w[k] = float(k < length ? double(w[k]) + 0.99 * config_.global_rate * sum[k] : sum[k]);
TEST(FedGSync, Invariant2_WithAllOfEachGroupItIsFedAvg) {
  auto all = fedgsync_job(4, {{"rho", {1.0}}, {"groups", {std::int64_t{2}}}});
  auto plain = fedgsync_job(4, {{"reset_optimizer", {false}}}, "fedavg");
  for (auto* config : {&all, &plain})
    for (std::size_t k = 0; k < 4; ++k) config->learners[k].samples = 1 + k;
  TestJob a(all), b(plain);
  a.run();
  b.run();
  for (std::size_t i = 0; i < 7; ++i)
    EXPECT_NEAR(a.params(2)[i], b.params(2)[i], 1e-4 * std::abs(b.params(2)[i])) << i;
}

// Without a network there is no order to change.
// mutant: longhaul/sync/fedgsync_server.cpp
//   - if (!config_.differential || over()) return;
//   + if (!config_.differential) return committed(turn);
TEST(FedGSync, Invariant10_DifferentialTransmissionChangesNoModel) {
  TestJob on(fedgsync_job(5, {{"groups", {std::int64_t{2}}}}));
  TestJob off(fedgsync_job(5, {{"groups", {std::int64_t{2}}}, {"differential", {false}}}));
  on.run();
  off.run();
  EXPECT_EQ(on.params(1), off.params(1));
  EXPECT_EQ(on.records.at({0, "round_s"}).size(), off.records.at({0, "round_s"}).size());
}

// mutant: longhaul/sync/fedgsync.cpp
//   - return compute(ResetOptimizer{}, 1, turn);
//   + return push(update, done, true, turn);
TEST(FedGSync, AnUpdateThatIsNotFiniteIsNotGivenAndTheWorkerBeginsAgain) {
  Job job({.groups = 1, .rho = 1}, {0, 0});
  const auto diverge = [](std::span<float> x) { x[0] = std::nanf(""); };
  for (int i = 0; i < 3; ++i) {
    job.computed(1, diverge);
    job.computed(1);  // the optimiser is reset, the model asked for
    EXPECT_FALSE(job.worker(1).failed());
    EXPECT_EQ(job.params(1)[0], 0.f);
  }
  job.computed(1, diverge);
  EXPECT_TRUE(job.worker(1).failed());
}

// mutant: longhaul/sync/fedgsync.cpp
//   - ar(local_, batches_, profile_, sketch_, shard_, resets_, resetting_, urgency_);
//   + ar(local_, profile_, sketch_, shard_, resets_, resetting_, urgency_);
// mutant: longhaul/sync/fedgsync_server.cpp
//   - ar(groups_, pending_, sketches_, samples_, next_, refused_, lost_, began_, deadline_, took_);
//   + ar(groups_, sketches_, samples_, next_, refused_, lost_, began_, deadline_, took_);
TEST(FedGSync, AllEndAlikeAndSavingChangesNothing) {
  TestJob job(fedgsync_job(4, {}));
  job.run();
  for (Rank rank = 1; rank < 4; ++rank) EXPECT_EQ(job.params(rank), job.params(0));
  EXPECT_EQ(job.node(3).strategy().rounds_done(), 6u);
  EXPECT_EQ(changed_by_saving(fedgsync_job(5, {{"regroup", {std::int64_t{2}}}})), "");
}

// The lowest worker is lost while it sketches: the next gives the model to start from.
// mutant: longhaul/sync/server/worker_half.cpp
//   - if (begun_ || (phase_ != Phase::waiting && phase_ != Phase::computing)) return;
//   + if (begun_ || phase_ != Phase::waiting) return;
// mutant: longhaul/sync/server/worker_half.cpp
//   - if (owes_start_) give_start(turn);
//   +
TEST(FedGSync, WhoFollowsTheLowestGivesTheModelToStartFrom) {
  TestJob::Config config = fedgsync_job(4, {});
  config.roles = {1, 1, 1, std::uint8_t(Role::server)};
  config.server = 3;
  config.takes = [](Rank) { return 60; };
  TestJob job(config);
  job.crash(0);
  job.run();
  EXPECT_TRUE(job.failures.empty());
  EXPECT_EQ(job.finished[1], 1);
  EXPECT_EQ(job.params(1), job.params(2));
}

}  // namespace
}  // namespace longhaul::sync
