// Invariants:
// With nothing in transit the sum of all x and c changes by training only (1e-6). The same
//         in rounds: easgd_synchronous_test.cpp.
// In rounds, without training, mean(x) - c is multiplied by 1 - alpha (n + 1), and
//         x - mean(x) by 1 - alpha: easgd_synchronous_test.cpp.
// One worker: a pull and push multiply x - c by 1 - 2 alpha.
#include "longhaul/sync/easgd.h"

#include <gtest/gtest.h>

#include "longhaul/sync/testing/server_and_workers.h"
#include "longhaul/sync/testing/test_job.h"

namespace longhaul::sync {
namespace {

using testing::ServerAndWorkers;
using testing::TestJob;

// Nobody trains; workers are where the test put them. Nothing is in flight after a pull and push.
TEST(Easgd, R3_19_WhatWorkersAndCentreHoldTogetherIsConserved) {
  ServerAndWorkers<Easgd> job({}, 3);
  job.start(2);
  double sum = 2;
  for (Rank rank = 0; rank < 3; ++rank) {
    const float at = float(rank * rank) - 3.5f;
    std::fill(job.params(rank).begin(), job.params(rank).end(), at);
    sum += double(at);
  }
  Random random(1, Stream{});
  for (int i = 0; i < 100; ++i) {
    job.computed(Rank(random.below(3)));
    job.read_by_hand(0);
    double now = double(job.model()[0]);
    for (Rank rank = 0; rank < 3; ++rank) now += double(job.params(rank)[0]);
    ASSERT_NEAR(now, sum, 1e-6 * 10) << i;
  }
}

// One worker: x - c is multiplied by 1 - 2 alpha by each pull and push.
TEST(Easgd, R3_21_APairComesTogetherByTwoAlpha) {
  ServerAndWorkers<Easgd> job({.beta = 0.2}, 1);
  job.start(0);
  std::fill(job.params(0).begin(), job.params(0).end(), 1.f);
  double apart = 1;
  for (int i = 0; i < 10; ++i) {
    job.computed(0);
    job.read_by_hand(0);
    apart *= 1 - 2 * 0.2;
    EXPECT_NEAR(double(job.params(0)[0]) - double(job.model()[0]), apart, 1e-6) << i;
  }
}

TestJob::Config easgd_job(std::uint32_t n, std::vector<Setting> codec = {}) {
  return {.sync = "easgd",
          .settings = {{"steps", {std::int64_t{2}}}},
          .codec = std::move(codec),
          .learners = testing::learners(n, {.rate = 0.05f, .momentum = 0.5f, .buffers = 1}),
          .stop = {.max_rounds = 8}};
}

TEST(Easgd, AllEndWithTheCentre) {
  for (const auto& codec : {std::vector<Setting>{}, {{"kind", {std::string("int8")}}}}) {
    auto job = TestJob::ended(easgd_job(4, codec));
    ASSERT_EQ(job.finished.size(), 4u);
    for (Rank rank = 1; rank < 4; ++rank) EXPECT_EQ(job.params(rank), job.params(0));
    EXPECT_TRUE(job.errors.empty());
  }
}

TEST(Easgd, SavingAfterEveryEventChangesNothing) {
  EXPECT_EQ(changed_by_saving(easgd_job(3)), "");
  EXPECT_EQ(changed_by_saving(easgd_job(3, {{"kind", {std::string("int8")}}})), "");
}

}  // namespace
}  // namespace longhaul::sync
