#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "longhaul/sim/testing/random_faults.h"
#include "longhaul/sim/testing/small_job.h"

#include "longhaul/base/testing/effort.h"

namespace longhaul::sim {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::RunningJob;
using testing::SmallJob;

TEST(WorldFaults, SurvivorsOfACrashAreToldAfterTheDetectionTimeAndGoOn) {
  SmallJob small{.ranks = 4, .exchange = {.rounds = 10}};
  small.faults = {{.kind = Fault::Kind::crash, .rank = 2, .at = 100ms}};
  small.world.detect = 3s;
  RunningJob job(small);
  Time noticed{0};
  ASSERT_TRUE(job.world().run(99ms));
  while (!job.world().finished()) {
    ASSERT_TRUE(job.world().step());
    if (noticed == Time{0} && job.world().node(0).view().epoch == 1) noticed = job.world().now();
  }
  EXPECT_GE(noticed, Time{3100ms});
  EXPECT_LE(noticed, Time{3150ms});
  EXPECT_EQ(job.params(0), job.params(3));
  EXPECT_THAT(job.world().node(3).view().live, ElementsAre(0, 1, 3));
  EXPECT_THAT(job.lost, ElementsAre("rank 2: crashed"));
  EXPECT_TRUE(job.world().figures(2).crashed);
  EXPECT_FALSE(job.world().figures(2).finished_at);
}

TEST(WorldFaults, ACrashAtAnyEventEndsInAnAgreedViewAndAFinishedRun) {
  std::uint64_t events = 0;
  {
    RunningJob job({.ranks = 4, .exchange = {.rounds = 2}});
    ASSERT_TRUE(job.world().run());
    events = job.world().counters().events;
  }
  for (std::uint64_t at = 0; at < events; at += longhaul::testing::kGate ? 7 : 3) {
    SmallJob small{.ranks = 4, .exchange = {.rounds = 2}};
    small.faults = {{.kind = Fault::Kind::crash, .rank = Rank(at % 4), .at_event = at}};
    RunningJob job(small);
    const auto ended = job.world().run();
    ASSERT_TRUE(ended) << "crash at event " << at << ": " << ended.error().what;
    EXPECT_THAT(job.lost, ElementsAre("rank " + std::to_string(at % 4) + ": crashed"));
  }
}

TEST(WorldFaults, ACutThatHealsInTimeLosesNothingAndNobodyIsTold) {
  SmallJob small{.ranks = 3, .exchange = {.rounds = 6}};
  RunningJob calm(small);
  ASSERT_TRUE(calm.world().run());
  for (const bool one_way : {false, true}) {
    small.faults = {{.kind = Fault::Kind::cut,
                     .rank = 0,
                     .peer = 1,
                     .one_way = one_way,
                     .at = 40ms,
                     .until = 2040ms}};
    RunningJob job(small);
    const auto ended = job.world().run();
    ASSERT_TRUE(ended) << ended.error().what;
    EXPECT_EQ(job.params(1), calm.params(1)) << "the same numbers, later";
    EXPECT_EQ(job.world().node(0).view().epoch, 0u);
    EXPECT_GT(job.world().now(), calm.world().now() + 1900ms);
    EXPECT_LT(job.world().now(), calm.world().now() + 2100ms);
  }
}

TEST(WorldFaults, AMinorityThatIsCutOffIsLeftBehind) {
  SmallJob small{.ranks = 5, .exchange = {.rounds = 6}};
  small.world.detect = 1s;
  small.faults = partition(std::vector<Rank>{0, 1}, std::vector<Rank>{2, 3, 4}, 50ms, kForever);
  RunningJob job(small);
  const auto ended = job.world().run();
  ASSERT_TRUE(ended) << ended.error().what;
  EXPECT_THAT(job.world().node(4).view().live, ElementsAre(2, 3, 4));
  EXPECT_EQ(job.lost.size(), 2u);
  EXPECT_EQ(job.params(2), job.params(4));
}

TEST(WorldFaults, WithoutAMajorityTheRunEndsWithAReason) {
  SmallJob small{.ranks = 2};
  small.faults = {{.kind = Fault::Kind::crash, .rank = 0, .at = 5ms}};
  RunningJob job(small);
  const auto ended = job.world().run();
  ASSERT_FALSE(ended);
  EXPECT_EQ(ended.error().kind, Error::Kind::unavailable);
  EXPECT_THAT(ended.error().what, HasSubstr("rank 1 (site1)"));
}

TEST(WorldFaults, WhenAllAreGoneTheRunSaysSo) {
  SmallJob small{.ranks = 2};
  small.faults = {{.kind = Fault::Kind::crash, .rank = 0, .at = 5ms},
                  {.kind = Fault::Kind::crash, .rank = 1, .at = 6ms}};
  RunningJob job(small);
  const auto ended = job.world().run();
  ASSERT_FALSE(ended);
  EXPECT_THAT(ended.error().what, HasSubstr("no node is left"));
}

TEST(WorldFaults, APausedNodeTakesItsInputsInOrderWhenItGoesOn) {
  SmallJob small{.ranks = 3, .size = 400, .exchange = {.rounds = 8, .chunk = 4}};
  small.delay = Time{0};
  small.up = small.down = {};
  small.speed = {10ms};
  RunningJob calm(small);
  ASSERT_TRUE(calm.world().run());
  // The others go on for the round under way and send on the very instant the pause ends.
  small.faults = {{.kind = Fault::Kind::pause, .rank = 1, .at = 15ms, .until = 20ms},
                  {.kind = Fault::Kind::pause, .rank = 2, .at = 35ms, .until = 90ms},
                  {.kind = Fault::Kind::pause, .rank = 2, .at = 60ms, .until = 120ms}};
  RunningJob job(small);
  const auto ended = job.world().run();
  ASSERT_TRUE(ended) << ended.error().what;
  EXPECT_EQ(job.params(2), calm.params(2));
  EXPECT_EQ(job.world().now(), calm.world().now() + 80ms);
}

// Rank 0 tells rank 1 something every 10 ms; rank 1 has heard enough after three.
class Ticker final : public Strategy {
 public:
  explicit Ticker(const Place& place) : self_(place.self) {}
  void on_start(Turn& turn) override {
    for (std::uint32_t tick = 1; tick <= 3 && self_ == 0; ++tick)
      turn.set_timer(*this, TimerId{tick}, tick * 10ms);
  }
  void on_timer(TimerId id, Turn& turn) override {
    Message message;
    message.kind = std::uint16_t(id);
    turn.send(1, std::move(message));
    if (++ticks_ == 3) turn.finish();
  }
  Status on_message(Rank, const Message&, Turn& turn) override {
    if (++ticks_ == 3) turn.finish();
    return Ok{};
  }
  Round rounds_done() const override { return 0; }
  std::string waiting_for() const override { return "ticks"; }

 private:
  Rank self_;
  int ticks_ = 0;
};

// The second message comes at the very time the first is let in: it must not overtake.
TEST(WorldFaults, WhatComesAsAPauseEndsDoesNotOvertakeWhatWaited) {
  SmallJob small{.ranks = 2};
  small.delay = Time{0};
  small.up = small.down = {};
  small.faults = {{.kind = Fault::Kind::pause, .rank = 1, .at = 5ms, .until = 20ms}};
  RunningJob job(small, [](const Place& place) { return std::make_unique<Ticker>(place); });
  const auto ended = job.world().run();
  EXPECT_TRUE(ended) << ended.error().what;
}

TEST(WorldFaults, ALongPauseIsALossAndTheNodeLearnsOfIt) {
  SmallJob small{.ranks = 4, .exchange = {.rounds = longhaul::testing::kGate ? 200u : 400u}};
  small.world.detect = 1s;
  const Time until = longhaul::testing::kGate ? Time(2s) : Time(5s);
  small.faults = {{.kind = Fault::Kind::pause, .rank = 3, .at = 50ms, .until = until}};
  RunningJob job(small);
  const auto ended = job.world().run();
  ASSERT_TRUE(ended) << ended.error().what;
  ASSERT_EQ(job.lost.size(), 1u);
  EXPECT_THAT(job.lost[0], HasSubstr("rank 3: the other sites have declared this one lost"));
}

TEST(WorldFaults, RandomFaultsNeverHangARunOrBreakWhatTheCheckersHold) {
  int finished = 0;
  constexpr std::uint64_t kEvery = longhaul::testing::kGate ? 7 : 1;
  for (std::uint64_t seed = 0; seed < 60; seed += kEvery) {
    SmallJob small{.ranks = 5, .per_site = 2, .exchange = {.rounds = 5}, .seed = seed};
    small.world.detect = 200ms;
    small.world.repeat = "seed " + std::to_string(seed);
    small.faults = random_faults(seed, {.ranks = 5,
                                        .horizon = 200ms,
                                        .crashes = Rank(seed % 3),
                                        .pauses = 1,
                                        .cuts = 2,
                                        .longest = 400ms});
    RunningJob job(small), again(small);
    const auto ended = job.world().run();
    (void)again.world().run();
    EXPECT_EQ(job.hash(), again.hash());
    finished += bool(ended);
    if (ended) continue;
    // Losing the majority, or a node that goes alone, is an honest end; a checker's word is not.
    EXPECT_NE(ended.error().kind, Error::Kind::malformed) << ended.error().what;
    EXPECT_THAT(ended.error().what, HasSubstr("[seed " + std::to_string(seed) + "]"));
  }
  EXPECT_GE(finished, 30 / int(kEvery));
}

}  // namespace
}  // namespace longhaul::sim
