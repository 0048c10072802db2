// Invariants:
// One worker with alpha = 1 (and prox = 0) is plain training, bit-identical.
// Each component of the model stays between the first model's and those of all sent.
// s(0) = 1, poly(3) = 0.5, hinge(5) = 1/11.
// A model that is too old changes nothing, and its worker receives the model.
#include "longhaul/sync/fedasync.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "longhaul/sync/testing/server_and_workers.h"
#include "longhaul/sync/testing/test_job.h"

namespace longhaul::sync {
namespace {

using testing::ServerAndWorkers;
using testing::TestJob;
using Floats = std::vector<float>;

TestJob::Config fedasync_job(std::uint32_t n, std::vector<Setting> settings) {
  settings.push_back({"steps", {std::int64_t{3}}});
  return {.sync = "fedasync",
          .settings = std::move(settings),
          .learners = testing::learners(n, {.rate = 0.05f, .momentum = 0.5f, .buffers = 1}),
          .stop = {.max_rounds = 6}};
}

TEST(FedAsync, R3_16_OneWorkerWithAlphaOneIsPlainTraining) {
  TestJob job(fedasync_job(1, {{"alpha", {1.0}}, {"prox", {0.0}}}));
  TestJob::Config plain = fedasync_job(1, {});
  plain.sync = "bsp";
  plain.settings = {};
  plain.stop.max_rounds = 18;
  TestJob sgd(plain);
  job.run();
  sgd.run();
  EXPECT_EQ(job.params(0), sgd.params(0));
}

TEST(FedAsync, R3_17_TheModelStaysInTheHullOfAllThatWereSent) {
  ServerAndWorkers<FedAsync> job({.rule = "constant"}, 3, 4);
  job.start(0.5f);
  Floats low(4, 0.5f), high(4, 0.5f);
  Random random(5, Stream{});
  for (int i = 0; i < 200; ++i) {
    Floats w(4);
    for (std::size_t k = 0; k < 4; ++k) {
      w[k] = i == 0 ? 0.5f : float(random.uniform() - 0.5) * 8;
      low[k] = std::min(low[k], w[k]);
      high[k] = std::max(high[k], w[k]);
    }
    job.push(Rank(random.below(3)), w);
    for (std::size_t k = 0; k < 4; ++k) {
      ASSERT_GE(job.model()[k], low[k]);
      ASSERT_LE(job.model()[k], high[k]);
    }
  }
}

TEST(FedAsync, R3_18_WhatAgeTakesOff) {
  for (const char* rule : {"constant", "poly", "hinge"})
    EXPECT_DOUBLE_EQ(share_at({.rule = rule}, 0), 1);
  EXPECT_DOUBLE_EQ(share_at({.rule = "poly", .rule_a = 0.5}, 3), 0.5);
  EXPECT_DOUBLE_EQ(share_at({.rule = "hinge", .rule_a = 10, .rule_b = 4}, 4), 1);
  EXPECT_DOUBLE_EQ(share_at({.rule = "hinge", .rule_a = 10, .rule_b = 4}, 5), 1.0 / 11);
  EXPECT_DOUBLE_EQ(share_at({.rule = "constant"}, 100), 1);
}

// What is too old changes nothing, is counted with its age, and its worker gets the model.
TEST(FedAsync, WhatIsTooOldIsDiscarded) {
  ServerAndWorkers<FedAsync> job({.alpha = 0.5, .rule = "constant", .max_staleness = 2}, 2, 1);
  job.start(0);
  for (int i = 0; i < 3; ++i) job.push(0, {1.f});
  const float before = job.model()[0];
  EXPECT_EQ(before, 0.875f);
  job.push(1, {100.f});
  EXPECT_EQ(job.model()[0], before);
  EXPECT_EQ(job.records("discarded"), std::vector<double>{3});
  EXPECT_EQ(job.records("staleness"), (std::vector<double>{0, 0, 0}));
  job.push(1, {1.f});  // from the model it was given with that
  EXPECT_EQ(job.model()[0], 0.9375f);
}

TEST(FedAsync, TheProximalTermHoldsLocalStepsBack) {
  TestJob free(fedasync_job(1, {{"alpha", {1.0}}, {"prox", {0.0}}}));
  TestJob tied(fedasync_job(1, {{"alpha", {1.0}}, {"prox", {4.0}}}));
  free.run();
  tied.run();
  EXPECT_GT(std::abs(tied.params(0)[0]), std::abs(free.params(0)[0]) + 0.1f);
}

TEST(FedAsync, AllEndAlikeAndSavingChangesNothing) {
  auto job = TestJob::ended(fedasync_job(4, {}));
  for (Rank rank = 1; rank < 4; ++rank) EXPECT_EQ(job.params(rank), job.params(0));
  EXPECT_EQ(changed_by_saving(fedasync_job(3, {})), "");
}

}  // namespace
}  // namespace longhaul::sync
