#include "longhaul/sync/relay.h"

#include <gtest/gtest.h>

#include "longhaul/base/testing/result.h"
#include "longhaul/sync/testing/test_job.h"

namespace longhaul::sync {
namespace {

using testing::TestJob;

TestJob::Config two_workers_and_a_server() {
  return {
      .learners = {{.target = 1}, {.target = 2}, {}},
      .roles = {std::uint8_t(Role::worker), std::uint8_t(Role::worker), std::uint8_t(Role::server)},
      .stop = {.max_rounds = 6, .lag = 1}};
}

TEST(Relay, EndsWithTheJobAndNotBefore) {
  TestJob job(two_workers_and_a_server());
  job.after_event = [&] {
    if (job.finished[2] > 0) EXPECT_EQ(job.node(0).strategy().rounds_done(), 6u);
  };
  job.run();
  for (Rank rank = 0; rank < 3; ++rank) EXPECT_EQ(job.finished[rank], 1) << rank;
  EXPECT_EQ(job.steps[2], 0u);
  EXPECT_TRUE(job.errors.empty()) << job.errors[0];  // verdicts go to workers alone
}

TEST(Relay, SaysWhomItWaitsFor) {
  TestJob job(two_workers_and_a_server());
  std::string seen;
  job.after_event = [&] {
    if (seen.empty()) seen = job.node(2).waiting_for();
  };
  job.run();
  EXPECT_TRUE(says(seen, "the end of the run at ranks 0 1"));
}

TEST(Relay, FailsWhenAllWorkersAreLost) {
  auto config = two_workers_and_a_server();
  config.learners.resize(4);
  config.roles = {std::uint8_t(Role::worker), std::uint8_t(Role::server),
                  std::uint8_t(Role::server), std::uint8_t(Role::server)};
  TestJob job(config);
  job.crash(0);
  job.run();
  EXPECT_EQ(job.failures.size(), 3u);
  EXPECT_TRUE(says(job.failures[1], "all workers are lost"));
}

}  // namespace
}  // namespace longhaul::sync
