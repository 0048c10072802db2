// The same job over sockets, to the same bits: every node in a thread of its own with an event loop
// of its own, over TCP on the loopback, against the simulator. What bits = rank and plan promise.
#include <gtest/gtest.h>

#include <mutex>
#include <thread>

#include "longhaul/net/event_loop.h"
#include "tests/job_builder.h"

namespace longhaul::conformance {
namespace {

using namespace std::chrono_literals;

struct Ended {
  std::vector<std::vector<float>> params;  // of workers, by rank
  std::vector<std::string> errors;         // by rank; "" where all went well
  std::vector<std::string> notes;
};

net::EventLoopConfig loop_config(std::size_t size, Rank rank) {
  net::EventLoopConfig config;
  config.job_hash = 7;
  config.process = 100 + rank;
  config.addresses.assign(size, {"127.0.0.1", 0});
  config.meet = 60s;
  return config;
}

// `disturb` runs in this thread while the nodes run in theirs.
Ended over_sockets(const JobSpec& spec,
                   const std::function<void(std::span<net::EventLoop* const>)>& disturb = {}) {
  const Members members = members_of(spec);
  Ended ended;
  ended.errors.resize(members.size());
  std::mutex notes;
  std::vector<std::unique_ptr<Learner>> learners;
  std::vector<std::unique_ptr<net::EventLoop>> loops;
  std::vector<net::Address> addresses;
  Place place;
  place.members = std::make_shared<const Members>(members);
  place.seed = spec.seed;
  place.chunk_bytes = spec.chunk_bytes;
  for (place.self = 0; place.self < members.size(); ++place.self) {
    const bool worker = place.me().is(Role::worker);
    if (worker) learners.push_back(make_learner(spec, place.self));
    place.layout = learners.front()->layout();
    loops.push_back(std::make_unique<net::EventLoop>(
        loop_config(members.size(), place.self), place, worker ? learners.back().get() : nullptr,
        score_of, net::EventLoop::Observer{.on_note = [&](const std::string& note) {
          const std::lock_guard lock(notes);
          ended.notes.push_back(note);
        }}));
    const auto port = loops.back()->listen();
    LH_CHECK(port);
    addresses.push_back({"127.0.0.1", *port});
  }
  std::vector<std::thread> threads;
  for (place.self = 0; place.self < members.size(); ++place.self) {
    loops[place.self]->set_addresses(addresses);
    threads.emplace_back([&, place] {
      net::EventLoop& loop = *loops[place.self];
      Learner* learner = place.me().is(Role::worker) ? learners[place.self].get() : nullptr;
      Node node(place, make_strategy(spec, place), learner, loop);
      if (const Status done = loop.run(node); !done) ended.errors[place.self] = done.error().what;
    });
  }
  if (disturb) {
    std::vector<net::EventLoop*> all;
    for (const auto& loop : loops) all.push_back(loop.get());
    disturb(all);
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& learner : learners)
    ended.params.emplace_back(learner->params().begin(), learner->params().end());
  return ended;
}

void expect_equal_bits(const JobSpec& spec, const Ended& ended) {
  Job job(spec);
  ASSERT_TRUE(job.run());
  for (const std::string& error : ended.errors) EXPECT_EQ(error, "");
  EXPECT_TRUE(ended.notes.empty()) << ended.notes.front();
  for (Rank rank = 0; rank < ended.params.size(); ++rank)
    EXPECT_TRUE(ended.params[rank] == job.params(rank)) << "rank " << rank;
}

class Sockets : public ::testing::TestWithParam<Variant<OverlayEntry>> {};

// mutant: longhaul/overlay/reduction.cpp
//   - add_scaled(sum_, weights[next_], part->second);
//   + add_scaled(sum_, weights[next_] * (1 + 1e-7 * double(waiting_.size())), part->second);
TEST_P(Sockets, GiveTheBitsOfTheSimulator) {
  for (const Combination& parts : combinations_with(GetParam())) {
    for (const std::uint32_t workers : {2u, 3u, 5u}) {
      SCOPED_TRACE(parts.name() + ", " + std::to_string(workers) + " workers");
      JobSpec spec;
      spec.parts = parts;
      spec.workers = workers;
      spec.rounds = 3;
      spec.equal_samples = false;
      expect_equal_bits(spec, over_sockets(spec));
    }
  }
}

// Connections are cut again and again, in the middle of frames; nobody is lost.
// mutant: longhaul/net/link.cpp
//   - outbox_.rewind();
//   + seen_ = 0;
TEST_P(Sockets, BrokenConnectionsChangeNoBit) {
  JobSpec spec;
  spec.parts = combinations_with(GetParam()).front();
  spec.workers = 3;
  spec.rounds = 60;
  const Ended ended = over_sockets(spec, [](std::span<net::EventLoop* const> loops) {
    for (int i = 0; i < 25; ++i) {
      std::this_thread::sleep_for(20ms);
      loops[std::size_t(i) % loops.size()]->break_connections();
    }
  });
  expect_equal_bits(spec, ended);
}

INSTANTIATE_TEST_SUITE_P(Overlay, Sockets, ::testing::ValuesIn(overlay_variants()),
                         [](const auto& one) { return one.param.name(); });

}  // namespace
}  // namespace longhaul::conformance
