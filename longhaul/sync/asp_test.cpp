// Invariants:
// One worker is plain training (1e-6: x + (x' - x) is rounded).
// At equal speeds the staleness is n - 1 for every push after the first n.
// With lambda = 0, or where x is bak, compensation changes no bit; else it is the formula.
#include "longhaul/sync/asp.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "longhaul/base/testing/result.h"
#include "longhaul/sync/testing/server_and_workers.h"
#include "longhaul/sync/testing/test_job.h"

namespace longhaul::sync {
namespace {

using testing::ServerAndWorkers;
using testing::TestJob;
using Floats = std::vector<float>;

TestJob::Config asp_job(std::uint32_t n, std::vector<Setting> settings = {}) {
  return {.sync = "asp",
          .settings = std::move(settings),
          .learners = testing::learners(n, {.rate = 0.05f, .buffers = 2}),
          .stop = {.max_rounds = 12}};
}

TEST(Asp, R3_8_OneWorkerIsPlainTraining) {
  TestJob::Config plain = asp_job(1);
  plain.sync = "bsp";
  auto asp = TestJob::ended(asp_job(1)), sgd = TestJob::ended(plain);
  EXPECT_EQ(asp.finished[0], 1);
  EXPECT_EQ(asp.steps[0], 12u);
  for (std::size_t i = 0; i < 8; ++i)
    EXPECT_NEAR(asp.params(0)[i], sgd.params(0)[i], 1e-6 * std::abs(sgd.params(0)[i])) << i;
}

TEST(Asp, R3_9_StalenessIsThatOfTheOthersAtEqualSpeeds) {
  for (const std::uint32_t n : {1u, 2u, 5u}) {
    TestJob::Config config = asp_job(n + 1);  // the server apart, as far from all
    config.roles.assign(n, std::uint8_t(Role::worker));
    config.roles.push_back(std::uint8_t(Role::server));
    config.server = n;
    auto job = TestJob::ended(config);
    const auto& staleness = job.records[{n, "staleness"}];
    ASSERT_EQ(staleness.size(), 12u * n);
    for (std::size_t i = 0; i < staleness.size(); ++i)
      EXPECT_EQ(staleness[i].second, i < n ? double(i) : double(n - 1)) << i;
  }
}

// A node that serves and works first says what its own work waits for.
TEST(Asp, ANodeThatServesAndWorksSaysWhichOfThemWaits) {
  TestJob job(asp_job(3));
  std::set<std::string> waits;
  job.after_event = [&] { waits.insert(job.node(0).strategy().waiting_for()); };
  job.run();
  EXPECT_TRUE(waits.contains("the model of the server, rank 0"));
  EXPECT_TRUE(waits.contains("updates of ranks 0 1 2"));
}

TEST(Asp, R3_22_WithoutLambdaOrWithoutDelayCompensationChangesNoBit) {
  auto plain = TestJob::ended(asp_job(3)), alone = TestJob::ended(asp_job(1));
  for (const char* kind : {"constant", "adaptive"}) {
    auto none =
        TestJob::ended(asp_job(3, {{"compensation", {std::string(kind)}}, {"lambda", {0.0}}}));
    EXPECT_EQ(none.params(0), plain.params(0)) << kind;
    auto one =
        TestJob::ended(asp_job(1, {{"compensation", {std::string(kind)}}, {"lambda", {3.0}}}));
    EXPECT_EQ(one.params(0), alone.params(0)) << kind;
  }
}

// x <- x + u - eta lambda (u / eta)^2 (x - bak), bak being the worker's own.
TEST(Asp, R3_22_CompensatesByTheFormula) {
  const double eta = 0.5, lambda = 0.04;
  for (const bool adaptive : {false, true}) {
    ServerAndWorkers<Asp> job({adaptive ? "adaptive" : "constant", lambda}, 2, 1, eta);
    job.start(1);
    double x = 1, square = 0;
    std::map<Rank, double> bak{{0, 1.0}, {1, 1.0}};
    for (const Rank rank : {0u, 1u, 1u, 0u, 1u}) {
      const double u = 0.1 * (rank + 1.0), g = -u / eta;
      square = 0.95 * square + 0.05 * g * g;
      const double lambda_t = adaptive ? lambda / std::sqrt(square + 1e-7) : lambda;
      x += u - eta * lambda_t * g * g * (x - bak[rank]);
      bak[rank] = x;
      job.push(rank, {float(u)});
      EXPECT_NEAR(job.model()[0], x, 1e-6);
    }
  }
}

// Running statistics: of one worker its own, of several the newest of each count alike.
TEST(Asp, BuffersOfOneWorkerAreItsOwn) {
  auto job = TestJob::ended(asp_job(1));
  EXPECT_EQ(job.params(0).back(), 12.f);
}

TEST(Asp, ALostWorkerIsNotWaitedForAndItsUpdatesStay) {
  TestJob job(asp_job(3));
  job.crash_at(40, 2);
  job.run();
  EXPECT_TRUE(job.failures.empty()) << job.failures.begin()->second;
  EXPECT_EQ(job.params(0), job.params(1));
  EXPECT_EQ(job.node(1).strategy().rounds_done(), 12u);
}

TEST(Asp, WithoutItsServerARunEndsAndSaysWhoIsLost) {
  TestJob job(asp_job(3));
  job.crash_at(40, 0);
  job.run();
  for (const Rank rank : {1u, 2u}) {
    EXPECT_TRUE(says(job.failures[rank], "server is lost: site site0 (rank 0)"));
    EXPECT_TRUE(says(job.failures[rank], "resume"));
  }
}

TEST(Asp, CompensationTakesNoErrorFeedback) {
  EXPECT_EQ(entry_with(Asp::entry(), {"sync", "", 0, {}}).traits.no_feedback, "");
  const Settings with{"sync", "", 0, {{"compensation", {std::string("constant")}}}};
  EXPECT_NE(entry_with(Asp::entry(), with).traits.no_feedback, "");
  server::Setup unknown;
  EXPECT_TRUE(Asp::check({}, unknown));
  EXPECT_FALSE(Asp::check({.compensation = "constant"}, unknown));
}

TEST(Asp, SavingAfterEveryEventChangesNothing) {
  EXPECT_EQ(changed_by_saving(asp_job(3)), "");
  EXPECT_EQ(changed_by_saving(asp_job(3, {{"compensation", {std::string("adaptive")}}})), "");
}

}  // namespace
}  // namespace longhaul::sync
