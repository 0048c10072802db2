// What an EventLoop does for one node alone. Whole jobs over sockets: tests/sockets_test.cpp.
#include "longhaul/net/event_loop.h"

#include <array>
#include <atomic>
#include <mutex>
#include <set>
#include <thread>

#include <gtest/gtest.h>

#include "longhaul/base/testing/effort.h"

namespace longhaul::net {
namespace {

using namespace std::chrono_literals;

// Ends its run at a time.
class Alarm final : public Strategy {
 public:
  static constexpr TimerId kRings{1};
  explicit Alarm(Time at) : at_(at) {}
  void on_start(Turn& turn) override { turn.set_timer(*this, kRings, at_); }
  void on_timer(TimerId id, Turn& turn) override {
    EXPECT_EQ(id, kRings);
    turn.finish();
  }
  Round rounds_done() const override { return 0; }
  std::string waiting_for() const override { return "its alarm"; }

 private:
  const Time at_;
};

// A round each millisecond, for at most a minute.
class Busy final : public Strategy {
 public:
  void on_start(Turn& turn) override { turn.set_timer(*this, TimerId{1}, 1ms); }
  void on_timer(TimerId id, Turn& turn) override {
    if (++rounds_; turn.now() > 60s) return turn.finish();
    turn.set_timer(*this, id, turn.now() + 1ms);
  }
  Round rounds_done() const override { return rounds_; }
  std::string waiting_for() const override { return "the next round"; }

 private:
  Round rounds_ = 0;
};

struct Alone {
  Place place{.self = 0,
              .members = std::make_shared<const Members>(Members{{"oregon"}}),
              .layout = Layout::flat(1)};
  std::map<std::uint64_t, Buffer> disk;
  Time ended{0};
  std::function<Status()> write = [] { return Status(Ok{}); };  // before it is on disk
  std::function<void(const EventLoop&)> on_tick = [](const EventLoop&) {};
  std::function<bool()> checkpoint = {};
  std::vector<std::string> notes;
  std::function<Status(const KeptVotes&)> keep = {};
  Round every = 0;  // a checkpoint every so many rounds; 0: of a strategy without rounds

  // From the newest checkpoint, if there is one; `stop`: see EventLoop::Observer.
  Status run(Time alarm, std::function<bool()> stop) {
    EventLoopConfig config;
    config.peers.process = 1;
    config.peers.addresses = {{"127.0.0.1", 0}};
    config.checkpoints.newest = disk.empty() ? 0 : disk.rbegin()->first;
    config.checkpoints.save = [this](std::uint64_t number, Buffer state) {
      return [this, number, state = std::move(state)]() -> Status {
        LH_TRY(write());
        disk[number] = state;
        return Ok{};
      };
    };
    config.checkpoints.load = [this](std::uint64_t number) -> Result<Buffer> {
      return disk[number];
    };
    config.checkpoints.stop_within = Time{0};
    config.checkpoints.every = every;
    config.keep = keep;
    const EventLoop* self = nullptr;
    EventLoop loop(std::move(config), place, nullptr, {},
                   {.on_note = [this](const std::string& text) { notes.push_back(text); },
                    .on_tick = [&] { on_tick(*self); },
                    .checkpoint = checkpoint,
                    .stop = std::move(stop)});
    self = &loop;
    if (const auto port = loop.peers().listen(); !port) return port.error();
    std::unique_ptr<Strategy> strategy = std::make_unique<Alarm>(alarm);
    if (every > 0) strategy = std::make_unique<Busy>();
    Node node(place, std::move(strategy), nullptr, loop);
    const Status done = loop.run(node);
    ended = loop.counters().time;
    return done;
  }
};

// A timer is part of what a stopped run goes on from; its time is that of the run.
TEST(EventLoop, ATimerOutlivesAStop) {
  Alone alone;
  const auto since = [](auto began) { return std::chrono::steady_clock::now() - began; };
  const Time whole = longhaul::testing::kGate ? Time(4s) : Time(6s);
  const auto first = std::chrono::steady_clock::now();
  const Status stopped = alone.run(whole, [&] { return since(first) > whole / 2; });
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().what, "stopped by its user");
  ASSERT_FALSE(alone.disk.empty());
  ASSERT_LT(alone.ended, whole);
  const auto second = std::chrono::steady_clock::now();
  const Status done = alone.run(whole, [&] { return since(second) > 60s; });
  EXPECT_TRUE(done) << done.error().what;
  EXPECT_GE(alone.ended, whole) << "not before its time";
  EXPECT_LT(since(second), whole) << "what had passed before the stop counts";
}

// A disk that hangs is behind by one write, however many votes there are.
TEST(EventLoop, OfVotesTheNewestIsKept) {
  Alone alone;
  std::mutex mutex;
  std::vector<std::vector<std::uint8_t>> kept;
  std::atomic<bool> hangs = true;
  bool is_given = false;
  alone.keep = [&](const KeptVotes& votes) -> Status {
    while (hangs) std::this_thread::sleep_for(1ms);
    const std::lock_guard lock(mutex);
    EXPECT_EQ(votes.rank, 0u);
    if (votes.votes.size() == 1) kept.push_back(votes.votes);
    return Ok{};
  };
  alone.on_tick = [&](const EventLoop& loop) {
    if (loop.doing().state != "waiting") return;  // the node has begun, and voted
    auto& host = static_cast<longhaul::Host&>(const_cast<EventLoop&>(loop));
    if (std::exchange(is_given, true)) return void(hangs = false);
    for (const int vote : {1, 2, 3}) host.keep(0, Buffer(1, std::byte(vote)));
  };
  ASSERT_TRUE(alone.run(1s, [] { return false; }));
  EXPECT_EQ(kept, (std::vector<std::vector<std::uint8_t>>{{3}}));
}

TEST(EventLoop, WhatWaitsForADiskThatHangsIsBounded) {
  EventLoopConfig config;
  config.peers.addresses = {{"127.0.0.1", 0}, {"127.0.0.1", 0}};
  std::atomic<bool> hangs = true;
  config.keep = [&](const KeptVotes&) -> Status {
    while (hangs) std::this_thread::sleep_for(1ms);
    return Ok{};
  };
  const Place place{.self = 0,
                    .members = std::make_shared<const Members>(Members{{"oregon"}, {"lima"}}),
                    .layout = Layout::flat(1)};
  EventLoop loop(std::move(config), place, nullptr, {}, {});
  auto& host = static_cast<longhaul::Host&>(loop);
  host.keep(0, Buffer(1));
  for (int i = 0; i < 1000; ++i) {
    Send send{.to = 1, .message = {}, .service = kControl};
    send.message.machine = Path().child(0);  // membership
    send.message.kind = i % 4 == 0 ? Membership::Decided::kKind : Membership::Prepare::kKind;
    host.send(0, std::move(send));
    if (i < 4) EXPECT_EQ(loop.held(), std::size_t(i + 1));
  }
  EXPECT_EQ(loop.held(), 128u) << "64 of each kind";
  hangs = false;
}

// The loop runs, and says why, until the checkpoint is written, even with no time to stop.
TEST(EventLoop, AStopWaitsForTheDisk) {
  Alone alone;
  std::atomic<int> ticks = 0;
  alone.write = [&]() -> Status {
    const int before = ticks;
    for (int i = 0; i < 30'000 && ticks < before + 3; ++i) std::this_thread::sleep_for(1ms);
    return ticks < before + 3 ? Status(unavailable("the loop does not wait")) : Ok{};
  };
  std::set<std::string> doing;
  alone.on_tick = [&](const EventLoop& loop) {
    ++ticks;
    doing.insert(loop.doing().state);
  };
  ASSERT_FALSE(alone.run(60s, [&] { return doing.contains("waiting"); }));
  EXPECT_TRUE(alone.disk.contains(1));
  EXPECT_TRUE(doing.contains("writing"));
}

TEST(EventLoop, AStopEndsARunWhoseDiskIsAlwaysAtWork) {
  Alone alone;
  alone.every = 1;
  std::atomic<int> ticks = 0;
  alone.on_tick = [&](const EventLoop&) { ++ticks; };
  alone.write = [&]() -> Status {
    for (int i = 0, before = ticks; i < 1000 && ticks < before + 2; ++i)
      std::this_thread::sleep_for(1ms);
    return Ok{};
  };
  const Status stopped = alone.run({}, [&] { return ticks > 10; });
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().what, "stopped by its user");
}

TEST(EventLoop, ACheckpointThatIsAskedForIsTakenAndTold) {
  Alone alone;
  bool asked = false;
  alone.checkpoint = [&] { return !std::exchange(asked, true); };
  ASSERT_FALSE(alone.run(60s, [&] { return !alone.notes.empty(); }));
  EXPECT_EQ(alone.notes.front(), "checkpoint 1 is written");
}

// Rank 0 is through at once, rank 1 when the checkpoint of `awaited` is kept, or after 30 s.
class TwoLoops {
 public:
  class Ends final : public Strategy {
   public:
    explicit Ends(const std::atomic<bool>* until) : until_(until) {}
    void on_start(Turn& turn) override {
      if (until_) return turn.set_timer(*this, TimerId{1}, 0s);
      turn.finish();
    }
    void on_timer(TimerId, Turn& turn) override {
      if (*until_ || turn.now() > 30s) return turn.finish();
      turn.set_timer(*this, TimerId{1}, turn.now() + 1ms);
    }
    Round rounds_done() const override { return 1; }
    std::string waiting_for() const override { return "its checkpoint"; }

   private:
    const std::atomic<bool>* until_;
  };

  TwoLoops(Role first, Rank awaited) : awaited_(awaited) {
    for (Rank rank : {0u, 1u}) {
      EventLoopConfig config;
      config.peers.process = 1 + rank;
      config.peers.addresses = {{"127.0.0.1", 0}, {"127.0.0.1", 0}};
      config.checkpoints.every = 1;
      config.checkpoints.save = [this, rank](std::uint64_t, Buffer) {
        return [this, rank]() -> Status {
          saved[rank] = true;
          return Ok{};
        };
      };
      places[rank] = {.self = rank,
                      .members = std::make_shared<const Members>(
                          Members{{"oregon", 0, 0, std::uint8_t(first)}, {"virginia"}}),
                      .layout = Layout::flat(1)};
      loops[rank].emplace(std::move(config), places[rank], nullptr, EventLoop::Scorer{},
                          EventLoop::Observer{});
      addresses.push_back({"127.0.0.1", *loops[rank]->peers().listen()});
    }
    for (auto& loop : loops) loop->peers().set_addresses(addresses);
  }

  Status run(Rank rank) {
    Node node(places[rank], std::make_unique<Ends>(rank == 1 ? &saved[awaited_] : nullptr), nullptr,
              *loops[rank]);
    return loops[rank]->run(node);
  }

  // Both to their ends, which are to be good ones.
  void run() {
    Status first = Ok{};
    std::thread other([&] { first = run(0); });
    const Status second = run(1);
    other.join();
    EXPECT_TRUE(first) << first.error().what;
    EXPECT_TRUE(second) << second.error().what;
  }

  std::array<std::atomic<bool>, 2> saved{};
  std::array<Place, 2> places;
  std::array<std::optional<EventLoop>, 2> loops;
  std::vector<Address> addresses;

 private:
  const Rank awaited_;
};

// Otherwise who resumes with more rounds would have some nodes go on that wait for others which
// have done their last.
TEST(EventLoop, NothingIsKeptOfAWorkerThatIsAtItsEnd) {
  TwoLoops pair(Role::worker, 1);
  pair.run();
  EXPECT_FALSE(pair.saved[0]);
  EXPECT_TRUE(pair.saved[1]);
}

// It has no rounds of its own, and is part of every checkpoint.
TEST(EventLoop, ARelayIsKept) {
  TwoLoops pair(Role::server, 0);
  pair.run();
  EXPECT_TRUE(pair.saved[0]);
}

}  // namespace
}  // namespace longhaul::net
