#include <gtest/gtest.h>

#include "longhaul/base/testing/effort.h"
#include "longhaul/sim/testing/small_job.h"

namespace longhaul::sim {
namespace {

using namespace std::chrono_literals;
using testing::RunningJob;
using testing::SmallJob;

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
  const auto went_on = resumed.world().run();
  ASSERT_TRUE(went_on) << went_on.error().what;
  ASSERT_EQ(resumed.hash(), whole.hash());
  for (Rank rank = 0; rank < job.ranks; ++rank) ASSERT_EQ(resumed.params(rank), whole.params(rank));
  ASSERT_EQ(resumed.world().counters().wan_bytes, whole.world().counters().wan_bytes);
}

void expect_resumes_anywhere(const SmallJob& job) {
  RunningJob whole(job);
  const auto ended = whole.world().run();
  ASSERT_TRUE(ended) << ended.error().what;
  RunningJob stepped(job);
  const std::uint64_t every =
      longhaul::testing::kStride * (longhaul::testing::kGate && job.fair ? 4 : 1);
  std::uint64_t events = 0;
  for (;; ++events) {
    if (events % every == 0) expect_resumes(job, whole, stepped, events);
    if (::testing::Test::HasFatalFailure()) return;
    const auto more = stepped.world().step();
    ASSERT_TRUE(more);
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
