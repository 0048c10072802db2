// Rounds of ESync on whole nodes without a clock. Its rule: esync_reach_test.cpp; with times:
// tests/esync_test.cpp.
#include "longhaul/sync/esync.h"

#include <gtest/gtest.h>

#include "longhaul/sync/testing/test_job.h"

namespace longhaul::sync {
namespace {

using testing::learners;
using testing::Quadratic;
using testing::TestJob;
using namespace std::string_literals;

TestJob::Config config_of(std::string mode, std::vector<Quadratic::Config> learners) {
  return {.sync = "esync",
          .settings = {{"mode", {std::move(mode)}}},
          .learners = std::move(learners),
          .stop = {.max_rounds = 8}};
}

// Without a clock all are as fast: one step a round, and so the mean of the gradients' steps.
// mutant: longhaul/sync/esync.cpp
//   - if (timed) return;
//   +
TEST(ESync, Inv4_EqualSpeedsEqualBsp) {
  const auto equal = learners(3, {.start = 1, .rate = 0.1f, .samples = 4, .buffers = 2});
  for (const char* mode : {"leases", "public"}) {
    TestJob esync(config_of(mode, equal));
    TestJob bsp({.learners = equal, .stop = {.max_rounds = 8}});
    esync.run();
    bsp.run();
    for (Rank rank = 0; rank < 3; ++rank) {
      ASSERT_EQ(esync.finished[rank], 1) << mode;
      for (const auto& [round, steps] : esync.records[{rank, "steps"}]) EXPECT_EQ(steps, 1);
      for (std::size_t i = 0; i < 8; ++i)
        EXPECT_NEAR(esync.params(rank)[i], bsp.params(rank)[i], 1e-5);
    }
  }
}

// mutant: longhaul/sync/esync.cpp
//   - if (config_.weights == "samples" && shard_size_ > 0) weight = double(shard_size_);
//   +
TEST(ESync, UpdatesCountAlikeOrByWhatTheirSitesHold) {
  for (const bool samples : {false, true}) {
    std::vector<Quadratic::Config> two(2, {.target = 8, .slope = 0, .start = 8, .rate = 0.5f});
    two[1].target = 9;  // whose update is 1/2
    two[1].samples = 3;
    TestJob::Config config = config_of("leases", two);
    config.settings.push_back({"weights", {samples ? "samples"s : "equal"s}});
    config.stop.max_rounds = 1;
    TestJob job(config);
    job.run();
    EXPECT_NEAR(job.params(0)[0] - 8, 0.5 * (samples ? 0.75 : 0.5), 1e-6);
  }
}

// With the state server gone, too: the next one is asked.
TEST(ESync, ALostNodeIsNotWaitedFor) {
  for (const Rank lost : {0u, 1u, 2u}) {
    TestJob job(config_of("leases", learners(3, {})));
    bool crashed = false;
    job.after_event = [&] {
      const Rank other = lost == 0 ? 1 : 0;
      if (!crashed && job.node(other).strategy().rounds_done() == 3)
        crashed = true, job.crash(lost);
    };
    job.run();
    EXPECT_TRUE(crashed);
    for (Rank rank = 0; rank < 3; ++rank) EXPECT_EQ(job.finished[rank], rank == lost ? 0 : 1);
    EXPECT_TRUE(job.failures.empty());
  }
}

// A node that only keeps the states, and one that only serves the overlay, beside the workers.
// mutant: longhaul/sync/registry.cpp
//   - if constexpr (requires { Part::service(config); }) service = Part::service(config);
//   +
TEST(ESync, TheStatesMayBeKeptWhereNothingIsLearned) {
  TestJob::Config config = config_of("leases", learners(3, {}));
  config.roles = {std::uint8_t(Role::worker), std::uint8_t(Role::worker),
                  std::uint8_t(Role::state_server)};
  TestJob job(config);
  job.run();
  for (Rank rank = 0; rank < 3; ++rank) EXPECT_EQ(job.finished[rank], 1) << rank;
}

// mutant: longhaul/sync/esync.cpp
//   - ar(loss_, samples_, shard_size_, computing_, waits_);
//   + ar(loss_, samples_, shard_size_, waits_);
TEST(ESync, SavingAndLoadingAfterAnyEventChangesNothing) {
  for (const char* mode : {"leases", "public"})
    EXPECT_EQ(
        testing::changed_by_saving(config_of(mode, learners(3, {.momentum = 0.5f, .buffers = 1}))),
        "");
}

}  // namespace
}  // namespace longhaul::sync
