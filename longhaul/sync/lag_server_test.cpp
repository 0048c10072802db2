// The server's side of LAG, wherever it runs: losses, and a server without a learner.
#include <gtest/gtest.h>

#include "longhaul/base/testing/effort.h"
#include "longhaul/sync/testing/lag_job.h"

namespace longhaul::sync {
namespace {

using longhaul::testing::kStride;
using testing::bowl;
using testing::ConvexJob;
using testing::QuadraticForm;
using testing::rule;
using testing::TestJob;
using Forms = std::vector<QuadraticForm>;

// Whoever is lost, the server (rank 0) too, at whatever moment: the optimum is that of the others.
TEST(Lag, ALossAtAnyMomentLeavesTheRightOptimum) {
  const Forms forms = {bowl(1, 1), bowl(9, -1), bowl(2, 4), bowl(3, 3)};
  constexpr bool kGate = longhaul::testing::kGate;
  const double weights[] = {1, 9, 2, 3}, targets[] = {1, -1, 4, 3};
  std::uint64_t number = 0;
  for (const char* kind : {"worker", "server", "random"}) {
    // In the gate a few moments, other ones for each rule.
    for (std::uint64_t moment = kGate ? 1 + 101 * number++ : 1; moment < 400;
         moment += kGate ? 211 : kStride) {
      const Rank dead = moment % 4;
      ConvexJob star("lag", forms, rule(kind), kGate ? 150 : 300);
      std::uint64_t events = 0;
      star.job.after_event = [&] {
        if (++events == moment) star.job.crash(dead);
      };
      star.job.run(1000000);
      double pull = 0, weight = 0;
      for (Rank n = 0; n < 4; ++n) {
        if (n == dead) continue;
        pull += weights[n] * targets[n];
        weight += weights[n];
      }
      for (Rank n = 0; n < 4; ++n) {
        if (n == dead) continue;
        EXPECT_EQ(star.job.finished[n], 1) << kind << ", rank " << dead << " at " << moment;
        EXPECT_NEAR(star.job.params(n)[0], pull / weight, kGate ? 1e-3 : 1e-4)
            << kind << ", rank " << dead << " at " << moment;
      }
      EXPECT_TRUE(star.job.errors.empty()) << star.job.errors.front();
    }
  }
}

// Some have had the last model and some have not.
TEST(Lag, ALossNearTheEndEndsTheRunAtAll) {
  const Forms forms = {bowl(1, 1), bowl(9, -1), bowl(2, 4)};
  for (std::uint64_t moment = 1; moment < 150; moment += kStride) {
    ConvexJob star("lag", forms, rule("always"), 3);
    std::uint64_t events = 0;
    star.job.after_event = [&] {
      if (++events == moment) star.job.crash(0);
    };
    star.job.run(1000000);
    EXPECT_EQ(star.job.finished[1], 1) << moment;
    EXPECT_EQ(star.job.finished[2], 1) << moment;
    EXPECT_EQ(star.job.params(1), star.job.params(2)) << moment;
    EXPECT_TRUE(star.job.errors.empty()) << star.job.errors.front();
  }
}

TEST(Lag, AServerOfItsOwnHasNoLearner) {
  TestJob::Config config =
      ConvexJob::config("lag", {bowl(1, 1), bowl(9, -1), bowl(2, 4)}, rule("worker"), 200);
  config.roles = {std::uint8_t(Role::worker), std::uint8_t(Role::server),
                  std::uint8_t(Role::worker)};
  config.server = 1;
  TestJob job(config);
  job.run();
  EXPECT_TRUE(job.errors.empty()) << job.errors.front();
  for (Rank n = 0; n < 3; ++n) EXPECT_EQ(job.finished[n], 1);
  EXPECT_NEAR(job.params(0)[0], 9. / 3, 1e-5);
  EXPECT_EQ(job.params(0), job.params(2));
}

}  // namespace
}  // namespace longhaul::sync
