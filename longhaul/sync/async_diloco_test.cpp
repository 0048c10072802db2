#include "longhaul/sync/async_diloco.h"

#include <gtest/gtest.h>

#include "longhaul/sync/testing/server_and_workers.h"
#include "longhaul/sync/testing/test_job.h"

// Invariants:
// 1  One worker, N = 1: diloco with [outer] kind = "nesterov", the same rate and momentum, but for
//    rounding (the server adds a step to x, diloco to its anchor, which are equal).
// 2  The model after each push is that of the formulas, for c = 0 and c > 0; the sum D begins anew
//    with every N-th push.
// 3  H_i = max(1, floor(H speed_i / max_j speed_j)) over the live workers; H while a speed is
//    unknown, and for all without dynamic_steps.
// 4  A push of a worker that is lost counts once or not at all.
// 5  Saving and loading change nothing.
namespace longhaul::sync {
namespace {

using testing::ServerAndWorkers;
using testing::TestJob;
using AsyncJob = ServerAndWorkers<AsyncDiLoCo>;

TestJob::Config async_job(std::uint32_t n, std::vector<Setting> settings, Round rounds = 6) {
  settings.push_back({"steps", {std::int64_t{3}}});
  return {.sync = "async_diloco",
          .settings = std::move(settings),
          .learners = testing::learners(n, {.rate = 0.05f, .momentum = 0.5f, .buffers = 1}),
          .stop = {.max_rounds = rounds}};
}

TEST(AsyncDiLoCo, Inv1_OneWorkerWithABufferOfOneIsDiLoCo) {
  TestJob::Config config = async_job(1, {{"buffer", {std::int64_t{1}}}}, 20);
  auto job = TestJob::ended(config);
  config.sync = "diloco";
  config.settings = {{"steps", {std::int64_t{3}}}};
  config.outer = {{"kind", {std::string("nesterov")}}, {"rate", {0.7}}, {"momentum", {0.9}}};
  auto diloco = TestJob::ended(config);
  testing::expect_near(job.params(0), diloco.params(0), 1e-5);
}

TEST(AsyncDiLoCo, Inv2_EachPushFollowsTheFormulas) {
  for (const double c : {0.0, 0.25}) {
    constexpr double kRate = 0.5, kBeta = 0.8;
    AsyncJob job({.buffer = 3, .rate = kRate, .momentum = kBeta, .activation = c}, 2, 1);
    job.start(4);
    double x = 4, m = 0, d = 0;
    for (int t = 1; t <= 8; ++t) {
      const double g = 0.25 * t - 1;
      job.push(Rank(t % 2), {float(-g)});
      d += g;
      const bool steps = t % 3 == 0;
      if (steps) m = kBeta * m + d / 3, d = 0;
      x -= kRate * ((steps ? 1 - 3 * c + c : c) * kBeta * m + g / 3);
      EXPECT_NEAR(job.model()[0], x, 1e-5) << "push " << t << ", c " << c;
    }
  }
}

std::uint32_t async_steps_of(AsyncJob& job, Rank rank) {
  std::uint32_t steps = 0;
  for (const auto& [to, header] : job.headers)
    if (to == rank) steps = server::from_extension<AsyncDiLoCoModel>(header.extension)->steps;
  return steps;
}

TEST(AsyncDiLoCo, Inv3_SlowerWorkersTakeFewerSteps) {
  AsyncJob job({.steps = 10}, 4, 1);
  job.start(0);
  const auto push = [&](Rank rank, std::uint64_t speed) {
    server::ServerHeader header = AsyncJob::push_header(job.given(rank));
    header.extension = AsyncDiLoCo::update_extension(speed);
    job.push(rank, header, {1.f});
    return async_steps_of(job, rank);
  };
  EXPECT_EQ(async_steps_of(job, 0), 10u);
  EXPECT_EQ(push(0, 40), 10u) << "the only one known";
  EXPECT_EQ(push(1, 100), 10u);
  EXPECT_EQ(push(0, 40), 4u);
  EXPECT_EQ(push(2, 39), 3u) << "3.9 in whole steps";
  EXPECT_EQ(push(3, 1), 1u) << "never none";
  EXPECT_EQ(push(3, 0), 10u) << "unknown";
  job.lose(1);
  EXPECT_EQ(push(2, 39), 9u) << "of 40, the fastest that is left";
  AsyncJob equal({.steps = 10, .dynamic_steps = false}, 2, 1);
  equal.start(0);
  equal.push(0, {1.f}, 100);
  equal.push(1, {1.f}, 1);
  EXPECT_EQ(async_steps_of(equal, 1), 10u);
}

TEST(AsyncDiLoCo, Inv4_ALostWorkersPushCountsOnce) {
  AsyncJob job({.buffer = 2, .rate = 1, .momentum = 0}, 2, 1);
  job.start(0);
  job.push(0, {2.f});
  job.lose(0);
  job.push(1, {4.f});
  EXPECT_EQ(job.model()[0], 3.f);
}

TEST(AsyncDiLoCo, AWorkerRefusesMoreStepsThanItsJobHas) {
  AsyncJob job({.steps = 10}, 1, 1);
  job.start(0);
  job.computed(0);
  server::ServerHeader header;
  header.kind = server::ServerHeader::Kind::model;
  header.version = 1;
  header.extension = server::to_extension(AsyncDiLoCoModel{11});
  EXPECT_FALSE(job.worker(0).admit(header, /*carries=*/true));
}

TEST(AsyncDiLoCo, Inv5_AllEndAlikeAndSavingChangesNothing) {
  auto job = TestJob::ended(async_job(4, {}));
  for (Rank rank = 1; rank < 4; ++rank) EXPECT_EQ(job.params(rank), job.params(0));
  EXPECT_EQ(changed_by_saving(async_job(3, {})), "");
}

}  // namespace
}  // namespace longhaul::sync
