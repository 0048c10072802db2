// Rounds of ESync on whole nodes without a clock. Its rule: esync_states_test.cpp; with times:
// tests/unequal_test.cpp.
//
// Invariants:
//  1. Every worker takes a step in every round: ReachTime.Inv1_*.
//  2. Public: max(1, floor((c_s - eps) / c_r)) steps: ReachTime.Inv2And3_*.
//  3. Public: idle less than c_r + eps: ReachTime.Inv2And3_*, ESyncJob.Inv3And9_*.
//  4. Equal speeds: as bsp with SGD: ESync.Inv4_*.
//  5. Each update is counted once; late ones: tests/deadline_test.cpp.
//  6. Clocks may differ by any amount: ReachTime.Inv6_*.
//  7. A query is answered once; a repeated one is malformed: States.*.
//  8. 100 ms delay, 50 ms a step: fast workers compute 90 % of the time: ESyncJob.Inv8_*.
//  9. Updates reach the server together; a slow uplink starts earlier: ReachTime.Inv9_*,
//     ESyncJob.Inv3And9_*.
// 10. A single slow step costs one round: ReachTime.Inv10_*.
// Actions of a worker at its deadline: DeadlineWorker.ESync* in deadline_test.cpp.
// ReachTime and States: esync_states_test.cpp; ESyncJob: tests/unequal_test.cpp.
#include <gtest/gtest.h>

#include "longhaul/sync/testing/hand_made.h"
#include "longhaul/sync/testing/test_job.h"

namespace longhaul::sync {
namespace {

using testing::learners;
using testing::Quadratic;
using testing::TestJob;
using namespace std::chrono_literals;
using namespace std::string_literals;

TestJob::Config config_of(std::string mode, std::vector<Quadratic::Config> learners) {
  return {.sync = "esync",
          .settings = {{"mode", {std::move(mode)}}},
          .learners = std::move(learners),
          .stop = {.max_rounds = 8}};
}

// Without a clock all are as fast: one step a round, and so the mean of the gradients' steps.
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
      testing::expect_near(esync.params(rank), bsp.params(rank), 1e-5);
    }
  }
}

TEST(ESync, UpdatesCountAlikeOrByWhatTheirSitesHold) {
  for (const bool samples : {false, true}) {
    std::vector<Quadratic::Config> two(2, {.target = 8, .slope = 0, .start = 8, .rate = 0.5f});
    two[1].target = 9;  // whose update is 1/2
    two[1].samples = 3;
    TestJob::Config config = config_of("leases", two);
    config.settings.push_back({"weights", {samples ? "samples"s : "equal"s}});
    config.stop.max_rounds = 1;
    auto job = TestJob::ended(config);
    EXPECT_NEAR(job.params(0)[0] - 8, 0.5 * (samples ? 0.75 : 0.5), 1e-6);
  }
}

// Rank 1 of two, over an overlay whose means are there at once; the state server, rank 0, is
// silent. Each step takes four seconds.
struct Unanswered : testing::HandMadeNode {
  Unanswered()
      : HandMadeNode(2, {.target = 0, .slope = 0, .start = 8, .rate = 0.5f}, {{"a"}, {"b"}}, 1,
                     {.max_rounds = 5}, testing::maker("esync", {{"state_timeout_s", {10.}}})) {
    for (Round round = 0; round < 2; ++round)
      overlay->outcomes[{round, 0, 0}] = {{0, 0}, 1, {0}, {}};
    start();
    progress();
  }
  void step() {
    ASSERT_EQ(context.wanted.size(), 1u);
    context.wanted.clear();
    context.now += 4s;
    const StepResult result{.loss = 1, .samples = 1, .elapsed = 4s};
    strategy->on_step(result, turn);
    Computed computed;
    computed.add(result);
    strategy->on_computed(computed, turn);
    progress();
  }
};

// After state_timeout_s, and three steps, it takes as many steps as in the last round, one at
// least, and goes on with the mean as soon as that is there.
TEST(ESync, ASilentStateServerIsDoneWithout) {
  Unanswered w;
  w.step();  // on a copy
  w.step();
  EXPECT_TRUE(w.context.wanted.empty()) << "asked, and not answered";
  EXPECT_EQ(w.strategy->waiting_for(), "a grant of rank 0, the state server");
  const auto alarms = w.done<SetTimer>();
  ASSERT_EQ(alarms.size(), 1u);
  EXPECT_EQ(alarms[0].at, Time(8s + 12s));
  w.context.now = alarms[0].at;
  w.strategy->on_timer(alarms[0].id, w.turn);
  EXPECT_EQ(w.strategy->rounds_done(), 1u);
  EXPECT_EQ(w.sum_of("unanswered"), 1);
}

// A node that only keeps the states, and one that only serves the overlay, beside the workers.
TEST(ESync, TheStatesMayBeKeptWhereNothingIsLearned) {
  TestJob::Config config = config_of("leases", learners(3, {}));
  config.roles = {std::uint8_t(Role::worker), std::uint8_t(Role::worker),
                  std::uint8_t(Role::state_server)};
  auto job = TestJob::ended(config);
  for (Rank rank = 0; rank < 3; ++rank) EXPECT_EQ(job.finished[rank], 1) << rank;
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

TEST(ESync, SavingAndLoadingAfterAnyEventChangesNothing) {
  for (const char* mode : {"leases", "public"})
    EXPECT_EQ(
        testing::changed_by_saving(config_of(mode, learners(3, {.momentum = 0.5f, .buffers = 1}))),
        "");
}

}  // namespace
}  // namespace longhaul::sync
