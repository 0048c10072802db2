// Laps of an exchange, timed across nodes whose clocks differ.
//
// Invariants:
//   K1 all nodes begin at one moment, with any clocks
//   K2 the fastest of several pings counts
//   K3 a lap lasts as long as its slowest node
//   K4 the bytes of a lap are those of all nodes
//   K5 a late start does not shorten the time
//   K6 untimely messages are refused
//   K7 the missing nodes are named
#include "longhaul/perf/lap_coordinator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <set>

#include "longhaul/core/testing/message_of.h"

namespace longhaul::perf {
namespace {

using namespace std::chrono_literals;

// Timekeepers whose clocks and delays are what a test says. Each node is ready as soon as it is
// called, works for `work`, and sends 100 bytes a lap, and its rank more.
class Track {
 public:
  explicit Track(std::uint32_t size, Round laps = 1) : size_(size), laps_(laps) {
    Members members(size);
    for (Rank rank = 0; rank < size; ++rank) members[rank].site = "s" + std::to_string(rank);
    auto shared = std::make_shared<const Members>(members);
    for (Rank rank = 0; rank < size; ++rank) {
      places_.push_back({.self = rank, .members = shared, .layout = Layout::flat(1)});
      view_.live.insert(rank);
      machines_.push_back(std::make_unique<LapCoordinator>(places_.back(), laps));
    }
    work.resize(size, 1s);
    clock.resize(size, Time{0});
    begun.resize(size);
    sent_.resize(size, 0);
  }

  void run() {
    for (Rank rank = 0; rank < size_; ++rank)
      turn(rank, [&](Turn& t) { machines_[rank]->on_start(t); });
    while (!events_.empty()) {
      const auto next = std::min_element(events_.begin(), events_.end(), [](auto& a, auto& b) {
        return a.at < b.at;  // of equal ones the first
      });
      const Event event = std::move(*next);
      events_.erase(next);
      now_ = event.at;
      event.happen();
      if (save_and_load) reload(event.rank);
    }
  }
  Status inject(Rank from, Rank to, const auto& message) {
    Status status = Ok{};
    turn(to, [&](Turn& t) { status = machines_[to]->on_message(from, packed(message), t); });
    return status;
  }
  LapCoordinator& at(Rank rank) { return *machines_[rank]; }

  std::vector<Time> work, clock;  // by rank; clock: how far it is before the true time
  std::function<Time(Rank from, Rank to, std::uint16_t kind)> delay =
      [](Rank, Rank, std::uint16_t) { return Time(10ms); };
  std::vector<std::vector<Time>> begun;  // by rank and lap, in true time
  std::vector<double> recorded;
  std::function<void()> watch = [] {};
  bool save_and_load = false;

 private:
  struct Event {
    Time at;
    Rank rank;
    std::function<void()> happen;
  };

  static Message packed(const auto& message) { return longhaul::testing::message_of(message); }
  void turn(Rank rank, const std::function<void(Turn&)>& input) {
    TurnContext context{.now = now_ + clock[rank], .place = &places_[rank], .view = &view_};
    Credits credits;
    context.credits = &credits;
    Turn t(context);
    input(t);
    progress(rank, t);
    for (Action& action : context.actions) carry(rank, action);
    watch();
  }
  void progress(Rank rank, Turn& t) {
    LapCoordinator& keeper = *machines_[rank];
    for (bool again = true; again;) {
      again = keeper.called();
      if (again) keeper.ready(sent_[rank], t);
    }
    if (!keeper.running() || begun[rank].size() > keeper.lap()) return;
    begun[rank].push_back(now_);
    sent_[rank] += 100 + rank;
    events_.push_back({now_ + work[rank], rank, [this, rank] {
                         turn(rank, [&](Turn& later) { machines_[rank]->done(later); });
                       }});
  }
  void carry(Rank rank, Action& action) {
    if (auto* send = std::get_if<Send>(&action)) {
      const Rank to = send->to;
      const Time at = now_ + delay(rank, to, send->message.kind);
      events_.push_back(
          {at, to, [this, rank, to, message = send->message] {
             turn(to, [&](Turn& t) { EXPECT_TRUE(machines_[to]->on_message(rank, message, t)); });
           }});
    } else if (auto* timer = std::get_if<SetTimer>(&action)) {
      events_.push_back({timer->at - clock[rank], rank, [this, rank, id = timer->id] {
                           turn(rank, [&](Turn& t) { machines_[rank]->on_timer(id, t); });
                         }});
    } else if (auto* record = std::get_if<Record>(&action)) {
      recorded.push_back(record->value);
    }
  }
  void reload(Rank rank) {
    Archive saved;
    machines_[rank]->archive(saved);
    const Buffer bytes = saved.take();
    machines_[rank] = std::make_unique<LapCoordinator>(places_[rank], laps_);
    Archive loaded(bytes);
    machines_[rank]->archive(loaded);
    ASSERT_TRUE(loaded.finish());
  }

  const std::uint32_t size_;
  const Round laps_;
  std::vector<Place> places_;
  View view_;
  std::vector<std::unique_ptr<LapCoordinator>> machines_;
  std::vector<std::uint64_t> sent_;
  std::deque<Event> events_;
  Time now_ = 1s;
};

TEST(LapCoordinator, K1_AllBeginAtOneMomentWhateverTheirClocksSay) {
  Track track(4, 2);
  track.clock = {0s, 50s, 3ms, 1s};
  track.delay = [](Rank a, Rank b, std::uint16_t) { return Time(10ms) * int(1 + a + b); };
  track.run();
  for (Rank rank = 0; rank < 4; ++rank) {
    ASSERT_EQ(track.begun[rank].size(), 2u);
    for (Round lap = 0; lap < 2; ++lap)
      EXPECT_EQ(track.begun[rank][lap], track.begun[0][lap]) << rank;
    EXPECT_TRUE(track.at(rank).finished());
  }
}

TEST(LapCoordinator, K2_OfSeveralPingsTheQuickestCounts) {
  Track track(2);
  int pings = 0;  // all but the third wait on their way there
  track.delay = [&](Rank, Rank, std::uint16_t kind) {
    return kind == Ping::kKind && ++pings != 3 ? Time(90ms) : Time(10ms);
  };
  track.run();
  EXPECT_EQ(pings, int(LapCoordinator::kPings));
  EXPECT_EQ(track.begun[1], track.begun[0]);
}

TEST(LapCoordinator, K3_ALapLastsAsLongAsTheSlowestNode) {
  Track track(3, 2);
  track.work = {1s, 3s, 2s};
  track.run();
  ASSERT_EQ(track.at(0).laps().size(), 2u);
  for (const Lap& lap : track.at(0).laps()) {
    EXPECT_EQ(lap.elapsed, 3s);
    EXPECT_EQ(lap.last, 1u);
  }
  EXPECT_EQ(track.recorded, (std::vector<double>{3, 3}));
  EXPECT_TRUE(track.at(1).laps().empty());
}

TEST(LapCoordinator, K4_CountsWhatAllSendInALap) {
  Track track(3, 3);
  track.run();
  for (const Lap& lap : track.at(0).laps()) EXPECT_EQ(lap.wan_bytes, 100 + 101 + 102u);
}

// Whoever begins late has not gained by it.
TEST(LapCoordinator, K5_ALateGoIsPartOfTheLap) {
  Track track(2);
  track.delay = [](Rank, Rank, std::uint16_t kind) {
    return kind == Go::kKind ? Time(2s) : Time(10ms);
  };
  track.run();
  ASSERT_EQ(track.at(0).laps().size(), 1u);
  EXPECT_EQ(track.at(0).laps()[0].elapsed, 2s + 1s - 20ms - LapCoordinator::kMargin);
}

TEST(LapCoordinator, K6_RefusesWhatIsUntimely) {
  Track track(3);
  bool called = false, halfway = false, pinged = false;
  track.watch = [&] {
    if (!called && track.at(1).waiting_for() == "lap 0: the go of rank 0") {
      called = true;  // rank 1 is ready, rank 2 perhaps not
      EXPECT_FALSE(track.inject(0, 1, Go{0, Time(2h).count()}));
      EXPECT_FALSE(track.inject(2, 1, Go{0, 0}));
      EXPECT_FALSE(track.inject(0, 1, Call{1}));
      EXPECT_FALSE(track.inject(2, 1, Ping{0}));
      EXPECT_FALSE(track.inject(0, 1, Ready{0, 0}));
      EXPECT_FALSE(track.inject(0, 1, Done{0, 0}));
      EXPECT_FALSE(track.inject(2, 0, Done{0, 0}));
      EXPECT_FALSE(track.inject(2, 0, Pong{0, 0}));
      EXPECT_FALSE(track.inject(2, 0, Call{0}));
    } else if (!halfway && track.at(0).waiting_for() == "lap 0: preparations of ranks 2") {
      halfway = true;
      EXPECT_FALSE(track.inject(1, 0, Ready{0, 0}));
    } else if (!pinged && track.at(0).waiting_for() == "lap 0: clocks of ranks 1, 2") {
      pinged = true;
      EXPECT_FALSE(track.inject(1, 0, Pong{1, 0}));
      EXPECT_FALSE(track.inject(1, 0, Ready{0, 0}));
    }
  };
  // Rank 2 is called late, so that rank 0 holds one ready and lacks the other.
  track.delay = [](Rank, Rank to, std::uint16_t kind) {
    return kind == Call::kKind && to == 2 ? Time(50ms) : Time(10ms);
  };
  track.run();
  EXPECT_TRUE(called && halfway && pinged);
  for (Rank rank = 0; rank < 3; ++rank) EXPECT_TRUE(track.at(rank).finished()) << rank;
  EXPECT_EQ(track.at(0).laps()[0].elapsed, 1s);
}

TEST(LapCoordinator, K7_SaysWhomItWaitsFor) {
  Track track(3);
  track.work = {1s, 3s, 2s};
  std::set<std::string> leader, other;
  track.watch = [&] {
    leader.insert(track.at(0).waiting_for());
    other.insert(track.at(2).waiting_for());
  };
  track.run();
  EXPECT_TRUE(leader.contains("lap 0: preparations of ranks 1, 2"));
  EXPECT_TRUE(leader.contains("lap 0: clocks of ranks 1, 2"));
  EXPECT_TRUE(leader.contains("lap 0: ends of ranks 1, 2"));
  EXPECT_TRUE(leader.contains("lap 0: ends of ranks 1"));
  EXPECT_TRUE(other.contains("the first call of rank 0"));
  EXPECT_TRUE(other.contains("lap 0: the go of rank 0"));
  EXPECT_TRUE(other.contains("lap 0: that rank 0 says that all have ended it"));
}

TEST(LapCoordinator, SavingAndLoadingAfterAnyEventIsGoingOn) {
  Track track(3, 2);
  track.save_and_load = true;
  track.work = {1s, 3s, 2s};
  track.delay = [](Rank from, Rank, std::uint16_t kind) {  // the slowest is not the last to say so
    return from == 2 && kind == Done::kKind ? Time(2s) : Time(10ms);
  };
  track.run();
  ASSERT_EQ(track.at(0).laps().size(), 2u);
  for (const Lap& lap : track.at(0).laps()) {
    EXPECT_EQ(lap.elapsed, 3s);
    EXPECT_EQ(lap.last, 1u);
    EXPECT_EQ(lap.wan_bytes, 303u);
  }
}

TEST(LapCoordinator, OneNodeKeepsItsOwnTime) {
  Track track(1);
  track.run();
  EXPECT_EQ(track.at(0).laps()[0].elapsed, 1s);
  EXPECT_TRUE(track.at(0).finished());
}

}  // namespace
}  // namespace longhaul::perf
