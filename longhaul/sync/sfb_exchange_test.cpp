// What workers of sfb send each other: how much, how far ahead, and what follows a loss.
#include <gtest/gtest.h>

#include "longhaul/base/testing/effort.h"
#include "longhaul/sync/testing/sfb_job.h"

namespace longhaul::sync {
namespace {

using testing::factors_by;
using testing::kFactorIn;
using testing::kFactorOut;
using testing::sfb_job;
using testing::TestJob;

// sfb.md 4: 4 K (J + D) (P - 1) bytes of a worker in a clock, of factors that are not sparse.
TEST(Sfb, SendsItsFactorsToEachOther) {
  for (const char* spread : {"full", "tree"}) {
    TestJob::Config config = sfb_job(4, factors_by(spread), 5);
    config.settings.push_back({"sparse_v", {false}});
    TestJob job(config);
    job.run();
    const double own = 4.0 * (kFactorOut + 1) * (kFactorOut + kFactorIn) * 3;
    double sum = 0;
    for (Rank rank = 0; rank < 4; ++rank)
      for (const auto& [clock, bytes] : job.records[{rank, "sent_bytes"}]) {
        sum += bytes;
        if (spread == std::string("full")) EXPECT_EQ(bytes, own);
      }
    // What a tree passes on after its last clock is in no record.
    EXPECT_LE(sum, 4 * 5 * own);
    EXPECT_GE(sum, 4 * 4 * own);
  }
}

// A site is lost after any event: survivors go on with equal models.
void survives_the_loss_of_a_worker(bool wait_free) {
  for (const std::int64_t staleness : {0, 2})
    for (const char* spread : {"full", "tree", "site"}) {
      TestJob::Config config = sfb_job(5, factors_by(spread, staleness), 5, wait_free);
      if (wait_free) config.settings = testing::wait_free(config.settings);
      for (auto& learner : config.learners) learner.momentum = 0;
      std::uint64_t events = 0;
      TestJob whole(config);
      whole.after_event = [&] { ++events; };
      whole.run();
      for (std::uint64_t at = 3; at < events; at += 1 + 4 * longhaul::testing::kStride) {
        const Rank lost = Rank(at % 5);
        SCOPED_TRACE(std::string(spread) + " rank " + std::to_string(lost) + " after event " +
                     std::to_string(at) + ", staleness " + std::to_string(staleness));
        TestJob job(config);
        std::uint64_t left = at;
        job.after_event = [&] {
          if (left-- == 1) job.crash(lost);
        };
        job.run();
        const Rank first = lost == 0 ? 1 : 0;
        for (Rank rank = 0; rank < 5; ++rank) {
          if (rank == lost) continue;
          ASSERT_EQ(job.failures[rank], "");
          ASSERT_EQ(job.finished[rank], 1);
          ASSERT_EQ(job.params(rank), job.params(first));
        }
      }
    }
}

TEST(Sfb, SurvivesTheLossOfAWorkerAtAnyMoment) { survives_the_loss_of_a_worker(false); }
TEST(Sfb, SurvivesALossBetweenTheLayersOfAClock) { survives_the_loss_of_a_worker(true); }

// sfb.md 6.
TEST(Sfb, NobodyIsFurtherAheadThanStaleness) {
  for (const std::int64_t staleness : {0, 1, 3}) {
    TestJob::Config config = sfb_job(4, factors_by("tree", staleness), 12);
    for (auto& learner : config.learners) learner.momentum = 0;
    config.takes = [](Rank rank) { return rank == 2 ? 60 : 0; };
    TestJob job(config);
    Round most = 0;
    job.after_event = [&] {
      Round low = ~Round(0), high = 0;
      for (Rank rank = 0; rank < 4; ++rank) {
        const Round done = job.node(rank).strategy().rounds_done();
        low = std::min(low, done);
        high = std::max(high, done);
      }
      most = std::max(most, high - low);
    };
    job.run();
    EXPECT_LE(most, Round(staleness + 1));
    EXPECT_GE(most, Round(staleness > 0 ? staleness : 0)) << "the bound is reached";
    for (Rank rank = 0; rank < 4; ++rank) {
      EXPECT_EQ(job.finished[rank], 1);
      EXPECT_EQ(job.params(rank), job.params(0));
    }
    if (staleness > 0) EXPECT_FALSE((job.records[{0, "staleness"}].empty()));
  }
}

}  // namespace
}  // namespace longhaul::sync
