// Every strategy over every overlay: what a node did, recorded and fed to a fresh node without a
// network, it does again, to the last bit of the last action.
#include <thread>

#include <gtest/gtest.h>

#include "longhaul/base/testing/result.h"
#include "longhaul/net/event_loop.h"
#include "longhaul/record/recorder.h"
#include "longhaul/record/replay.h"
#include "longhaul/record/testing/memory.h"
#include "tests/job_checks.h"

namespace longhaul::conformance {
namespace {

using record::Mode;
using record::testing::MemorySink, record::testing::MemorySource;

// The recordings of all nodes of a run, by rank.
class Tapes {
 public:
  explicit Tapes(Mode mode) : mode_(mode) {}
  Tap* of(const Place& place) {
    record::Header header;
    header.cpu = "this one";
    header.mode = mode_;
    header.rank = place.self;
    header.nodes = place.size();
    header.learner = place.me().is(Role::worker);
    header.layout = place.layout;
    sinks_.push_back(std::make_unique<MemorySink>());
    places_.push_back(place);
    return recorders_.emplace_back(std::make_unique<record::Recorder>(header, *sinks_.back()))
        .get();
  }
  void tap(sim::World& world) {
    for (Rank rank = 0; rank < world.size(); ++rank)
      world.node(rank).tap(of(world.node(rank).place()));
  }
  void expect_same(const JobSpec& spec, std::uint64_t fewest = 1) {
    for (std::size_t i = 0; i < recorders_.size(); ++i) {
      const Place& place = places_[i];
      SCOPED_TRACE("rank " + std::to_string(place.self));
      ASSERT_TRUE(recorders_[i]->finish());
      MemorySource source(sinks_[i]->bytes);
      record::Replay replay(source);
      ASSERT_TRUE(replay.open());
      std::unique_ptr<Learner> learner;
      if (mode_ == Mode::hashes && place.me().is(Role::worker))
        learner = make_learner(spec, place.self);
      const auto outcome =
          good(replay.run(place, make_strategy(spec, place),
                          {.learner = learner.get(), .cpu = "this one", .go_on = {}}));
      if (const auto& d = outcome->difference)
        ADD_FAILURE() << "input " << d->input << " " << d->what << ", action " << d->action << ": "
                      << d->recorded << " | " << d->replayed;
      EXPECT_FALSE(outcome->refused) << outcome->refused->what;
      EXPECT_FALSE(outcome->ending);
      EXPECT_EQ(outcome->inputs, recorders_[i]->inputs());
      EXPECT_GE(outcome->inputs, place.me().is(Role::worker) ? fewest : 1);
    }
  }

 private:
  const Mode mode_;
  std::vector<std::unique_ptr<MemorySink>> sinks_;
  std::vector<Place> places_;
  std::vector<std::unique_ptr<record::Recorder>> recorders_;
};

JobSpec small(const Combination& parts) {
  return {.parts = parts, .workers = 3, .size = 375, .rounds = 3};
}

struct Recorded : ::testing::TestWithParam<Variant<OverlayEntry>> {};
INSTANTIATE_TEST_SUITE_P(Overlay, Recorded, ::testing::ValuesIn(tried_overlays()), kByName);
struct RecordedOverSockets : Recorded {};
INSTANTIATE_TEST_SUITE_P(Overlay, RecordedOverSockets, ::testing::ValuesIn(tried_overlays(0)),
                         kByName);

// Of an overlay's combinations: in the gate one mode each, by turns.
bool is_left_out(Mode mode, std::size_t number) {
  return kGate && (mode == Mode::full) != (number % 2 == 0);
}

TEST_P(Recorded, ReplaysTheSame) {
  std::size_t number = GetParam().name().size();
  for (const Combination& parts : combinations_with(GetParam(), 3)) {
    ++number;
    for (Mode mode : {Mode::hashes, Mode::full}) {
      if (is_left_out(mode, number)) continue;
      SCOPED_TRACE(parts.name() + (mode == Mode::full ? ", full" : ""));
      JobSpec spec = small(parts);
      spec.server_apart = mode == Mode::full;
      Job job(spec);
      Tapes tapes(mode);
      tapes.tap(job.world());
      ASSERT_TRUE(job.run());
      tapes.expect_same(spec, 5);
    }
  }
}

// With a peer lost on the way, whose recording ends there.
TEST_P(Recorded, ReplaysALoss) {
  std::uint64_t at = kGate ? 30 : 60;
  for (const Combination& parts : combinations_with(GetParam(), 3)) {
    SCOPED_TRACE(parts.name());
    JobSpec spec = small(parts);
    spec.faults = {crash(1, at += 40)};
    Job job(spec);
    Tapes tapes(Mode::full);
    tapes.tap(job.world());
    ASSERT_TRUE(job.run());
    tapes.expect_same(spec);
  }
}

// A world that was saved, loaded and recorded from there.
TEST_P(Recorded, ReplaysWhatWasResumed) {
  std::uint64_t events = 30;
  std::size_t number = GetParam().name().size();
  for (const Combination& parts : combinations_with(GetParam(), 3)) {
    ++number;
    for (Mode mode : {Mode::hashes, Mode::full}) {
      if (is_left_out(mode, number + 1)) continue;
      SCOPED_TRACE(parts.name() + (mode == Mode::full ? ", full" : ""));
      const JobSpec spec = small(parts);
      Job whole(spec), first(spec);
      ASSERT_TRUE(whole.run());
      events += 9;
      const std::uint64_t stop = events % (whole.world().counters().events / 2);
      for (std::uint64_t i = 0; i < stop; ++i) ASSERT_TRUE(first.world().step());
      Job second(spec);
      second.load(first.save());
      Tapes tapes(mode);
      tapes.tap(second.world());
      ASSERT_TRUE(second.run());
      tapes.expect_same(spec);
    }
  }
}

// Over sockets the times are other ones in every run; a recording holds those that were.
TEST_P(RecordedOverSockets, ReplaysARun) {
  const auto all = combinations_with(GetParam(), 3);
  const JobSpec spec = small(all.at(all.size() / 2));
  SCOPED_TRACE(spec.parts.name());
  const Members members = members_of(spec);
  Place place;
  place.members = std::make_shared<const Members>(members);
  place.seed = spec.seed;
  place.chunk_bytes = spec.chunk_bytes;
  Tapes tapes(Mode::hashes);
  std::vector<std::unique_ptr<Learner>> learners;
  std::vector<std::unique_ptr<net::EventLoop>> loops;
  std::vector<std::unique_ptr<Node>> nodes;
  std::vector<net::Address> addresses;
  net::EventLoopConfig config;
  config.peers.job_hash = 7;
  config.peers.addresses.assign(members.size(), {"127.0.0.1", 0});
  for (place.self = 0; place.self < members.size(); ++place.self) {
    place.members = std::make_shared<const Members>(members);  // of its thread alone
    learners.push_back(make_learner(spec, place.self));
    place.layout = learners.front()->layout();
    config.peers.process = 100 + place.self;
    loops.push_back(std::make_unique<net::EventLoop>(config, place, learners.back().get(), score_of,
                                                     net::EventLoop::Observer{}));
    nodes.push_back(std::make_unique<Node>(place, make_strategy(spec, place), learners.back().get(),
                                           *loops.back()));
    nodes.back()->tap(tapes.of(place));
    const auto port = good(loops.back()->peers().listen());
    addresses.push_back({"127.0.0.1", *port});
  }
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < loops.size(); ++i) {
    loops[i]->peers().set_addresses(addresses);
    threads.emplace_back([&, i] {
      const Status done = loops[i]->run(*nodes[i]);
      EXPECT_TRUE(done) << done.error().what;
    });
  }
  for (std::thread& thread : threads) thread.join();
  tapes.expect_same(spec, 5);
}

}  // namespace
}  // namespace longhaul::conformance
