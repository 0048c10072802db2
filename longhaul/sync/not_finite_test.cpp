// A model that is not finite ends a run with the remedy, whatever the strategy sends.
#include <gtest/gtest.h>

#include "longhaul/sync/testing/sfb_job.h"
#include "longhaul/sync/testing/test_job.h"

namespace longhaul::sync {
namespace {

using testing::TestJob;

TestJob::Config diverging_job(std::string sync, std::vector<Setting> settings = {}) {
  return {.sync = std::move(sync),
          .settings = std::move(settings),
          .learners = testing::learners(3, {.rate = 1e6f, .buffers = 2}),
          .stop = {.max_rounds = 1000, .report_every = 3}};
}

// The host does not end the other trainers, which would train for ever.
TestJob::Config diverging_trainers(std::string algorithm) {
  return diverging_job("shadowsync",
                       {{"algorithm", {std::move(algorithm)}}, {"max_gap", {std::int64_t(5)}}});
}

TEST(NotFinite, EndsTheRunWithTheRemedy) {
  TestJob::Config factors = testing::sfb_job(3, testing::factors_by("full"), 20);
  for (auto& learner : factors.learners) learner.rate = 1e6f;
  for (const TestJob::Config& config :
       {diverging_job("adpsgd"), diverging_job("ds_sync"), diverging_job("gaia"),
        diverging_job("selmcast"), diverging_trainers("ma"), diverging_trainers("bmuf"),
        diverging_trainers("easgd"), factors}) {
    SCOPED_TRACE(config.sync);
    auto job = TestJob::ended(config);
    ASSERT_FALSE(job.failures.empty());
    const std::string& why = job.failures.begin()->second;
    EXPECT_NE(why.find(config.sync == "sfb" ? "not finite" : "lower [optimizer] rate"),
              std::string::npos)
        << why;
  }
}

}  // namespace
}  // namespace longhaul::sync
