// Invariants:
// With random speeds no worker leads by more than s, and s is reached.
// s = 0 equals bsp with SGD (1e-5).
// The model is the first one plus all updates, each once.
// Equal speeds, L below a step: at most two delays of waiting in s clocks:
//        tests/served_test.cpp.
#include "longhaul/sync/ssp.h"

#include <gtest/gtest.h>

#include <cmath>

#include "longhaul/base/testing/effort.h"
#include "longhaul/sync/testing/server_and_workers.h"
#include "longhaul/sync/testing/test_job.h"

namespace longhaul::sync {
namespace {

using testing::ServerAndWorkers;
using testing::TestJob;

TestJob::Config job_of(std::uint32_t n, std::int64_t staleness, Round rounds = 12) {
  return {.sync = "ssp",
          .settings = {{"staleness", {staleness}}},
          .learners = testing::learners(n, {.rate = 0.05f}),
          .stop = {.max_rounds = rounds}};
}

// Steps take random times. Who runs clock c has what all have done up to c - s: all have completed
// c - s clocks.
TEST(Ssp, R3_4_NobodyRunsFurtherAheadThanTheBound) {
  for (const std::uint64_t s : {0u, 1u, 3u}) {
    std::uint64_t furthest = 0;
    for (std::uint64_t seed = 1; seed <= longhaul::testing::cases(5); ++seed) {
      TestJob::Config config = job_of(4, std::int64_t(s), 40);
      Random random(seed, Stream{});
      config.takes = [&](Rank rank) { return int(random.below(rank == 3 ? 60 : 20)); };
      TestJob job(config);
      job.after_event = [&] {
        std::uint64_t least = job.steps[0];
        for (Rank rank = 1; rank < 4; ++rank) least = std::min(least, job.steps[rank]);
        for (Rank rank = 0; rank < 4; ++rank)
          if (job.node(rank).computing()) {
            ASSERT_LE(job.steps[rank], least + s) << rank;
            furthest = std::max(furthest, job.steps[rank] - least);
          }
      };
      job.run();
      EXPECT_EQ(job.finished.size(), 4u);
    }
    EXPECT_EQ(furthest, s);
  }
}

TEST(Ssp, R3_5_WithoutStalenessItIsBsp) {
  TestJob::Config synchronous = job_of(3, 0);
  synchronous.sync = "bsp";
  synchronous.settings = {};
  auto ssp = TestJob::ended(job_of(3, 0)), bsp = TestJob::ended(synchronous);
  for (std::size_t i = 0; i < 8; ++i)
    EXPECT_NEAR(ssp.params(1)[i], bsp.params(1)[i], 1e-5 * std::abs(bsp.params(1)[i])) << i;
}

TEST(Ssp, R3_6_TheModelIsTheFirstAndAllUpdatesEachOnce) {
  ServerAndWorkers<Ssp> job({.staleness = 2}, 2);
  job.start(7);
  double sum = 7;
  Random random(3, Stream{});
  const auto step = [&](std::span<float> x) {
    const float u = float(random.uniform()) - 0.5f;
    for (float& value : x) value += 2 * u;  // of two workers each gives a half
    sum += double(u);
  };
  // In turns, and by up to two clocks apart.
  for (const Rank rank : {0u, 0u, 1u, 1u, 1u, 0u, 1u, 0u, 0u, 1u, 1u, 0u}) job.computed(rank, step);
  for (int i = 0; i < 3; ++i)
    for (const Rank rank : {0u, 1u}) job.computed(rank, step);
  // A read brings all of them; whoever reads next tells.
  ASSERT_FALSE(job.records("staleness").empty());
  const std::size_t pushes = job.records("staleness").size();
  EXPECT_EQ(pushes, 18u);
  job.read_by_hand(0);
  EXPECT_NEAR(job.model()[0], sum, 1e-5);
}

TEST(Ssp, ALostWorkerLeavesTheMinimum) {
  TestJob job(job_of(3, 1));
  job.crash_at(60, 2);
  job.run();
  EXPECT_EQ(job.finished[0], 1);
  EXPECT_EQ(job.finished[1], 1);
  EXPECT_EQ(job.params(0), job.params(1));
}

// A worker whose link is slow holds at most s + 1 updates.
TEST(Ssp, EveryoneEndsWithTheSameModel) {
  auto job = TestJob::ended(job_of(5, 3));
  for (Rank rank = 1; rank < 5; ++rank) EXPECT_EQ(job.params(rank), job.params(0));
  EXPECT_EQ(job.node(3).strategy().rounds_done(), 12u);
}

TEST(Ssp, SavingAfterEveryEventChangesNothing) {
  EXPECT_EQ(changed_by_saving(job_of(3, 0)), "");
  EXPECT_EQ(changed_by_saving(job_of(3, 2)), "");
}

}  // namespace
}  // namespace longhaul::sync
