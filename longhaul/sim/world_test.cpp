#include "longhaul/sim/world.h"

#include <gmock/gmock.h>

#include "longhaul/base/testing/effort.h"
#include "longhaul/base/testing/result.h"
#include "longhaul/sim/testing/random_faults.h"
#include "longhaul/sim/testing/small_job.h"

namespace longhaul::sim {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::RunningJob;
using testing::SmallJob;

World::Ended run(RunningJob& job, Time until = kForever) {
  const auto ended = job.world().run(until);
  EXPECT_TRUE(ended) << (ended ? "" : ended.error().what);
  return ended ? *ended : World::Ended::stopped;
}

Error error_of(RunningJob& job) {
  const auto ended = job.world().run();
  EXPECT_FALSE(ended);
  return ended ? Error{} : ended.error();
}

TEST(World, AllNodesEndWithTheSameModelAndEveryRoundIsScored) {
  RunningJob job({.ranks = 4, .exchange = {.rounds = 5}});
  EXPECT_EQ(run(job), World::Ended::finished);
  for (Rank rank = 1; rank < 4; ++rank) EXPECT_EQ(job.params(rank), job.params(0));
  EXPECT_EQ(job.scores.size(), 5u);
  EXPECT_EQ(job.bad_messages, 0u);
}

// 4 sites, 64 floats in one message of 40 + 24 + 256 bytes: the uplink sends three of them, then
// the delay; the last byte is everywhere at step + 3 * 320 / B + L, and the next round begins.
TEST(World, ARoundTakesItsSteps_ItsBytesAndTheDelay) {
  SmallJob small{.ranks = 4, .exchange = {.rounds = 10, .steps = 2, .chunk = 64}};
  small.speed = {10ms};
  RunningJob job(small);
  Time last{0};
  job.world().observe({.on_round = [&](Time now, Rank, Round round) {
    const double wire = 3.0 * 320 / flow::bytes_per_second(1);
    EXPECT_NEAR(seconds(now), double(round) * (0.020 + wire + 0.005), 1e-7);
    last = now;
  }});
  run(job);
  EXPECT_GT(last, 200ms);
  // Then 2 messages of the finish barrier: there and back.
  EXPECT_NEAR(seconds(job.world().now() - last), 2 * 0.005, 0.004);
  EXPECT_NEAR(job.world().compute_utilisation(), 0.200 / seconds(job.world().now()), 0.01);
  EXPECT_EQ(job.world().figures(2).computing, 200ms);
}

TEST(World, CountsBytesBetweenSitesApartFromThoseWithin) {
  SmallJob small{.ranks = 4, .per_site = 2, .exchange = {.rounds = 10, .chunk = 64}};
  RunningJob job(small);
  run(job);
  // Each rank sends to 3 others, 2 of them elsewhere: 320 bytes a message; then the barrier's.
  const Counters& c = job.world().counters();
  EXPECT_NEAR(double(c.wan_bytes), 10 * 8 * 320, 900);
  EXPECT_NEAR(double(c.lan_bytes), 10 * 4 * 320, 900);
  EXPECT_NEAR(double(c.wan_messages), 10 * 8, 10);
  std::uint64_t sent = 0, received = 0;
  for (Rank rank = 0; rank < 4; ++rank) {
    sent += job.world().figures(rank).wan_sent;
    received += job.world().figures(rank).wan_received;
  }
  EXPECT_EQ(sent, c.wan_bytes);
  EXPECT_LE(received, sent);  // the run ends before the last ones arrive, perhaps
}

TEST(World, WireScaleMultipliesBulkAndLeavesHeadersAlone) {
  const auto bytes = [](double scale) {
    SmallJob small{.ranks = 2, .exchange = {.rounds = 1, .chunk = 64}};
    small.world.wire_scale = scale;
    RunningJob job(small);
    run(job);
    return job.world().counters().wan_bytes;
  };
  EXPECT_EQ(bytes(10) - bytes(1), 2u * 256 * 9);
}

// Two models in a row, from 8 sites to all others. The uplinks interleave what goes to different
// peers, chunk by chunk, and so they must with runs.
TEST(World, APhantomRunOfChunksCostsTheTimeAndTheBytesOfItsChunks) {
  const auto cost = [](std::uint64_t chunk) {
    SmallJob small{.ranks = 8, .size = 1 << 20, .exchange = {.rounds = 2, .chunk = chunk}};
    small.up = flow::bytes_per_second(1000);
    small.down = flow::bytes_per_second(100);
    small.phantom = true;
    RunningJob job(small);
    run(job);
    const Counters& c = job.world().counters();
    return std::tuple(c.wan_bytes, c.wan_messages, seconds(job.world().now()));
  };
  const auto [bytes, messages, time] = cost(65536);  // 256 KiB, the default chunk
  for (const std::uint64_t chunks : {4u, 8u, 16u}) {
    const auto [run_bytes, run_messages, run_time] = cost(chunks * 65536);
    EXPECT_EQ(run_bytes, bytes);
    EXPECT_EQ(run_messages, messages);
    EXPECT_NEAR(run_time, time, time * 1e-6);
  }
}

TEST(World, TheNumberOfThreadsChangesNothing) {
  std::set<std::uint64_t> hashes;
  std::set<std::vector<float>> models;
  for (const unsigned threads : {0u, 1u, 2u, 4u}) {
    SmallJob small{.ranks = 5, .size = 5000, .exchange = {.rounds = 8, .chunk = 700}};
    small.world.threads = threads;
    RunningJob job(small);
    EXPECT_EQ(run(job), World::Ended::finished);
    hashes.insert(job.hash());
    models.insert(job.params(3));
  }
  EXPECT_EQ(hashes.size(), 1u);
  EXPECT_EQ(models.size(), 1u);
}

TEST(World, AnotherSeedIsAnotherRun) {
  const auto hash = [](std::uint64_t seed) {
    RunningJob job({.seed = seed});
    run(job);
    return job.hash();
  };
  EXPECT_EQ(hash(1), hash(1));
  EXPECT_NE(hash(1), hash(2));
}

TEST(World, StopsAtATimeOrWhenAskedAndGoesOn) {
  RunningJob whole({}), parts({});
  run(whole);
  EXPECT_EQ(run(parts, 15ms), World::Ended::until);
  EXPECT_EQ(parts.world().now(), Time{15ms});
  parts.world().request_stop();
  EXPECT_EQ(run(parts), World::Ended::stopped);
  EXPECT_EQ(run(parts), World::Ended::finished);
  EXPECT_EQ(parts.hash(), whole.hash());
}

class Failing final : public Learner {
 public:
  explicit Failing(bool throws) : throws_(throws) {}
  std::shared_ptr<const Layout> layout() const override { return Layout::flat(1); }
  std::span<float> params() override { return {&value_, 1}; }
  std::span<float> grads() override { return {&value_, 1}; }
  Result<StepResult> step(const Work&) override {
    if (throws_) throw std::runtime_error("out of memory");
    return unavailable("CUDA is gone");
  }
  void state(Archive&) override {}

 private:
  bool throws_;
  float value_ = 0;
};

World world_of(unsigned threads) {
  FifoConfig net;
  net.sites.resize(1);
  net.site_of = {0};
  return World({.threads = threads, .repeat = "seed 7, repeat: longhaul simulate job.toml"},
               std::make_unique<FifoNetwork>(net),
               std::make_unique<JitteredSteps>(7, std::vector<JitteredSteps::Speed>(1)));
}

TEST(World, ALearnersErrorOrExceptionEndsTheRunWithTheCommandThatRepeatsIt) {
  for (const bool throws : {false, true}) {
    Failing learner(throws);
    World world = world_of(throws ? 2 : 0);
    Place place{.members = std::make_shared<Members>(Members{{"tokyo"}}),
                .layout = learner.layout()};
    world.add(place, std::make_unique<testing::Exchange>(testing::Exchange::Config{}, place),
              &learner);
    const Error ended = failure(world.run());
    EXPECT_THAT(ended.what, HasSubstr("rank 0 (tokyo)"));
    EXPECT_THAT(ended.what, HasSubstr(throws ? "out of memory" : "CUDA is gone"));
    EXPECT_THAT(ended.what, HasSubstr("[seed 7, repeat: longhaul simulate job.toml]"));
    EXPECT_FALSE(world.step()) << "a run that failed stays failed";
  }
}

// Says "finish" or nothing, or fails: for the ends of runs.
class Idle final : public Strategy {
 public:
  enum class Way { waits, asks_again, fails, talks_nonsense };
  explicit Idle(Way way) : way_(way) {}
  void on_start(Turn& turn) override {
    if (turn.self() == 0) turn.finish();
    if (way_ == Way::fails && turn.self() == 1) turn.fail("no data");
    if (way_ == Way::talks_nonsense && turn.self() == 0) turn.send(1, Message{});
    if (way_ == Way::asks_again) turn.set_timer(*this, TimerId{1}, turn.now() + 1s);
  }
  void on_timer(TimerId, Turn& turn) override {
    turn.set_timer(*this, TimerId{1}, turn.now() + 1s);
  }
  Round rounds_done() const override { return 0; }
  std::string waiting_for() const override { return "a token"; }

 private:
  Way way_;
};

RunningJob idle(Idle::Way way) {
  SmallJob small{.ranks = 2};
  small.world.repeat = "seed 9";
  return RunningJob(small, [way](const Place&) { return std::make_unique<Idle>(way); });
}

TEST(World, AStuckRunIsAnErrorThatNamesWhatEachNodeWaitsFor) {
  for (const auto way : {Idle::Way::waits, Idle::Way::asks_again}) {
    RunningJob job = idle(way);
    const Error error = error_of(job);
    EXPECT_EQ(error.kind, Error::Kind::timed_out);
    EXPECT_THAT(error.what, HasSubstr("rank 1 (site1): waits for a token"));
    EXPECT_THAT(error.what, HasSubstr("[seed 9]"));
    EXPECT_LT(job.world().now(), Time{2h});
  }
}

// The cause, more often than not: somebody waits for what it said.
TEST(World, AStuckRunNamesTheLastMessageThatWasRefused) {
  RunningJob job = idle(Idle::Way::talks_nonsense);
  EXPECT_THAT(error_of(job).what,
              HasSubstr("rank 1 (site1) refused a message of rank 0 (site0): unknown kind"));
}

TEST(World, FailOfANodeEndsTheRunWithItsReason) {
  RunningJob job = idle(Idle::Way::fails);
  const Error error = error_of(job);
  EXPECT_EQ(error.kind, Error::Kind::unavailable);
  EXPECT_THAT(error.what, HasSubstr("rank 1 (site1)"));
  EXPECT_THAT(error.what, HasSubstr("no data"));
}

TEST(World, ManyPhantomSites) {
  SmallJob small{.ranks = 30, .size = 11'175'000, .exchange = {.rounds = 5, .chunk = 1 << 24}};
  small.up = small.down = {};
  small.phantom = true;
  RunningJob job(small);
  EXPECT_EQ(run(job), World::Ended::finished);
  EXPECT_GE(job.world().counters().events, 5u * 30 * 29 * 2);
  EXPECT_GT(job.world().now(), Time{100ms});
}

// --- world faults

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
    const auto ended = good(job.world().run());
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
  const auto ended = good(job.world().run());
  EXPECT_THAT(job.world().node(4).view().live, ElementsAre(2, 3, 4));
  EXPECT_EQ(job.lost.size(), 2u);
  EXPECT_EQ(job.params(2), job.params(4));
}

TEST(WorldFaults, WithoutAMajorityTheRunEndsWithAReason) {
  SmallJob small{.ranks = 2};
  small.faults = {{.kind = Fault::Kind::crash, .rank = 0, .at = 5ms}};
  RunningJob job(small);
  const Error ended = failure(job.world().run());
  EXPECT_EQ(ended.kind, Error::Kind::unavailable);
  EXPECT_THAT(ended.what, HasSubstr("rank 1 (site1)"));
}

TEST(WorldFaults, WhenAllAreGoneTheRunSaysSo) {
  SmallJob small{.ranks = 2};
  small.faults = {{.kind = Fault::Kind::crash, .rank = 0, .at = 5ms},
                  {.kind = Fault::Kind::crash, .rank = 1, .at = 6ms}};
  RunningJob job(small);
  EXPECT_THAT(failure(job.world().run()).what, HasSubstr("no node is left"));
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
  const auto ended = good(job.world().run());
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
  const auto ended = good(job.world().run());
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

// --- world state

Buffer save(World& world) {
  Archive ar;
  world.state(ar);
  return ar.take();
}

Status load(World& world, std::span<const std::byte> bytes) {
  Archive ar(bytes);
  world.state(ar);
  return ar.finish();
}

// Small, and all kinds of events: steps and transfers of two rounds at once, timers, scores, a cut
// that heals in time, a pause that is noticed, a crash, and agreement.
SmallJob eventful() {
  SmallJob job{.ranks = 5, .per_site = 2, .size = 40, .exchange = {.rounds = 5, .chunk = 16}};
  job.world.detect = 20ms;
  job.faults = {
      {.kind = Fault::Kind::cut, .rank = 0, .peer = 2, .one_way = true, .at = 15ms, .until = 33ms},
      {.kind = Fault::Kind::pause, .rank = 1, .at = 50ms, .until = 90ms},
      {.kind = Fault::Kind::crash, .rank = 3, .at_event = 150}};
  return job;
}

// What `stepped` is now, saved, loaded and run to its end, is what `whole` is at its end.
void expect_resumes(const SmallJob& job, RunningJob& whole, RunningJob& stepped,
                    std::uint64_t events) {
  SCOPED_TRACE("after event " + std::to_string(events));
  const Buffer saved = save(stepped.world());
  RunningJob resumed(job);
  const Status loaded = load(resumed.world(), saved);
  ASSERT_TRUE(loaded) << loaded.error().what;
  ASSERT_EQ(save(resumed.world()), saved);
  const auto went_on = good(resumed.world().run());
  ASSERT_EQ(resumed.hash(), whole.hash());
  for (Rank rank = 0; rank < job.ranks; ++rank) ASSERT_EQ(resumed.params(rank), whole.params(rank));
  ASSERT_EQ(resumed.world().counters().wan_bytes, whole.world().counters().wan_bytes);
}

void expect_resumes_anywhere(const SmallJob& job) {
  RunningJob whole(job);
  const auto ended = good(whole.world().run());
  RunningJob stepped(job);
  const std::uint64_t every =
      longhaul::testing::kStride * (longhaul::testing::kGate && job.fair ? 4 : 1);
  std::uint64_t events = 0;
  for (;; ++events) {
    if (events % every == 0) expect_resumes(job, whole, stepped, events);
    if (::testing::Test::HasFatalFailure()) return;
    const auto more = good(stepped.world().step());
    if (!*more) break;
  }
  EXPECT_EQ(events, whole.world().counters().events);
  EXPECT_EQ(stepped.hash(), whole.hash());
}

TEST(WorldState, SaveAndLoadAfterAnyEventIsGoingOn) {
  SmallJob job{.ranks = 3, .size = 40, .exchange = {.rounds = 3, .chunk = 16}};
  job.world.threads = 2;
  expect_resumes_anywhere(job);
}

TEST(WorldState, SoItIsWithFaults) {
  const SmallJob job = eventful();
  RunningJob whole(job);
  ASSERT_TRUE(whole.world().run());
  EXPECT_EQ(whole.lost.size(), 2u);
  EXPECT_GE(whole.world().node(0).view().epoch, 1u);
  expect_resumes_anywhere(job);
}

// Runs of chunks: what is left of one is in the network.
TEST(WorldState, SoItIsWithPhantoms) {
  SmallJob job{.ranks = 3, .size = 400'000, .exchange = {.rounds = 2, .chunk = 200'000}};
  job.up = job.down = flow::bytes_per_second(50);
  job.phantom = true;
  job.faults = {{.kind = Fault::Kind::cut, .rank = 0, .peer = 2, .at = 120ms, .until = 330ms}};
  expect_resumes_anywhere(job);
}

TEST(WorldState, SoItIsWhereConnectionsShareLinks) {
  for (const bool phantom : {false, true}) {
    SmallJob job = eventful();
    job.fair = true;
    job.phantom = phantom;
    job.faults.pop_back();  // the crash: at which event depends on the network
    expect_resumes_anywhere(job);
  }
}

TEST(WorldState, AStateOfAnotherJobIsRefused) {
  RunningJob three({.ranks = 3}), four({.ranks = 4}), larger({.ranks = 3, .size = 65});
  ASSERT_TRUE(three.world().run(15ms));
  const Buffer saved = save(three.world());
  EXPECT_FALSE(load(four.world(), saved));
  EXPECT_FALSE(load(larger.world(), saved));
}

TEST(WorldState, ATornStateIsAnErrorOrAWorldThatCanBeRun) {
  const SmallJob job = eventful();
  RunningJob source(job);
  ASSERT_TRUE(source.world().run(33ms));
  const Buffer saved = save(source.world());
  for (std::size_t size = 0; size < saved.size(); size += 7 * longhaul::testing::kStride) {
    RunningJob torn(job);
    EXPECT_FALSE(load(torn.world(), std::span(saved).first(size))) << size;
  }
}

}  // namespace
}  // namespace longhaul::sim
