#include "longhaul/sim/world.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
    const auto ended = world.run();
    ASSERT_FALSE(ended);
    EXPECT_THAT(ended.error().what, HasSubstr("rank 0 (tokyo)"));
    EXPECT_THAT(ended.error().what, HasSubstr(throws ? "out of memory" : "CUDA is gone"));
    EXPECT_THAT(ended.error().what, HasSubstr("[seed 7, repeat: longhaul simulate job.toml]"));
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

}  // namespace
}  // namespace longhaul::sim
