#pragma once
// LapCoordinator starts a lap at the same time on all nodes of a job, and measures when the last
// node finishes, although every node has its own clock. Each node has one instance; rank 0
// coordinates. A lap:
//
//   call, ready   all nodes finish the previous lap and report that they are ready
//   ping, pong    rank 0 measures the offsets of the other clocks
//   go            all begin at one time, sent to each node in its own clock
//   done          each node's duration from that time
//
// A pong's clock value counts for the middle of its round trip. The fastest of kPings counts
// (Cristian, "Probabilistic clock synchronization", 1989). Starts differ by at most half of the
// difference of the two delays. The slowest node determines the duration of the lap.
#include <algorithm>
#include <optional>
#include <vector>

#include "longhaul/core/machine.h"
#include "longhaul/perf/messages.h"

namespace longhaul::perf {

struct Lap {
  Time elapsed{0};
  Rank last = 0;                // the slowest node
  std::uint64_t wan_bytes = 0;  // sent to other sites by all nodes, for and during the lap
  Time start{0};                // by the clock of rank 0
  void state(auto& ar) { ar(elapsed, last, wan_bytes, start); }
};

class LapCoordinator final : public Machine {
  static constexpr Rank kLeader = 0;
  static constexpr TimerId kStart{1};

  static Status refuse(Rank from, std::string_view what) {
    return malformed("rank " + std::to_string(from) + " sent " + std::string(what));
  }

 public:
  using Messages = perf::Messages;
  static constexpr std::uint32_t kPings = 5;
  static constexpr Time kMargin = std::chrono::milliseconds(5);  // beyond the longest round trip
  static constexpr Time kMaxLead = std::chrono::hours(1);        // from a go to its start

  // `laps`: at least one.
  LapCoordinator(const Place& place, Round laps) : is_leader_(place.self == kLeader), count_(laps) {
    LH_CHECK(laps > 0);
    if (is_leader_) peers_.resize(place.size());
  }

  void on_start(Turn& turn) override {
    if (is_leader_) call(turn);
  }

  Status on_message(Rank from, const Message& message, Turn& turn) override {
    return dispatch(Messages{}, message,
                    [&](const auto& one) -> Status { return take(from, one, turn); });
  }

  void on_timer(TimerId, Turn&) override {
    if (phase_ == Phase::set) phase_ = Phase::running;
  }

  void state(Archive& ar) override {
    ar.expect("timekeeper");
    ar(phase_, calls_, start_, stage_, peers_, left_, open_, sent_, sent_before_, laps_);
  }

  // --- for its owner, in on_progress --------------------------------------------
  // The previous lap has ended everywhere; the coordinator waits for ready().
  bool called() const { return phase_ == Phase::called; }
  // No further lap follows.
  bool over() const { return calls_ > count_; }
  // The current lap; only after the first call.
  Round lap() const { return calls_ - 1; }
  // `wan_bytes`: what this node has sent to other sites since it began.
  void ready(std::uint64_t wan_bytes, Turn& turn) {
    LH_CHECK(called());
    phase_ = Phase::ready;
    if (is_leader_) return note_ready(kLeader, wan_bytes, turn);
    turn.send(kLeader, Ready{lap(), wan_bytes}, {}, kControl);
  }

  // The lap has begun and done() was not called yet.
  bool running() const { return phase_ == Phase::running; }
  void done(Turn& turn) {
    LH_CHECK(running());
    phase_ = Phase::resting;
    const Time elapsed = std::max(turn.now() - start_, Time{0});
    if (is_leader_) return note_done(kLeader, elapsed, turn);
    turn.send(kLeader, Done{lap(), elapsed.count()}, {}, kControl);
  }

  // This node has finished.
  bool finished() const { return over() && !called() && left_ == 0; }
  // Rank 0: the finished laps; wan_bytes is valid once finished().
  const std::vector<Lap>& laps() const { return laps_; }
  std::string waiting_for() const {
    if (calls_ == 0) return "the first call of rank 0";
    const std::string text = "lap " + std::to_string(lap()) + ": ";
    if (!is_leader_) {
      if (phase_ == Phase::resting) return text + "that rank 0 says that all have ended it";
      return phase_ == Phase::ready && !over() ? text + "the go of rank 0" : "";
    }
    std::string ranks;
    for (Rank rank = 0; rank < peers_.size(); ++rank) {
      const PeerProgress& r = peers_[rank];
      const bool here = stage_ == Stage::preparing          ? r.ready
                        : stage_ == Stage::measuring_clocks ? rank == kLeader || r.pongs == kPings
                                                            : r.done;
      if (!here) ranks += (ranks.empty() ? "" : ", ") + std::to_string(rank);
    }
    if (ranks.empty()) return "";
    constexpr std::string_view kWhat[] = {"preparations", "clocks", "ends"};
    return text + std::string(kWhat[std::size_t(stage_)]) + " of ranks " + ranks;
  }

 private:
  enum class Phase : std::uint8_t { resting, called, ready, set, running };
  enum class Stage : std::uint8_t { preparing, measuring_clocks, timing };
  struct PeerProgress {  // rank 0's state of a node in this lap
    bool ready = false, done = false;
    std::uint32_t pongs = 0;
    Time sent{0};                   // time of the last ping
    std::optional<Time> trip = {};  // fastest round trip
    Time ahead{0};                  // offset of the node's clock from this one
    void state(auto& ar) { ar(ready, done, pongs, sent, trip, ahead); }
  };

  // At every node.
  Status take(Rank from, const Call& call, Turn&) {
    if (is_leader_ || from != kLeader) return refuse(from, "a call, which is for rank 0 to do");
    if (phase_ != Phase::resting || call.lap != calls_ || over())
      return refuse(from, "a call of lap " + std::to_string(call.lap) + " that does not follow");
    ++calls_;
    phase_ = Phase::called;
    return Ok{};
  }

  Status take(Rank from, const Ping& ping, Turn& turn) {
    if (is_leader_ || from != kLeader || phase_ != Phase::ready)
      return refuse(from, "an untimely ping");
    turn.send(kLeader, Pong{ping.number, turn.now().count()}, {}, kControl);
    return Ok{};
  }

  Status take(Rank from, const Go& go, Turn& turn) {
    if (is_leader_ || from != kLeader || phase_ != Phase::ready || over() || go.lap != lap())
      return refuse(from, "an untimely go");
    if (Time{go.at} - turn.now() > kMaxLead) return refuse(from, "a go of far too late");
    start_at(Time{go.at}, turn);
    return Ok{};
  }

  // A go that comes late counts all the same: the time until this node begins is part of its lap.
  void start_at(Time at, Turn& turn) {
    start_ = at;
    phase_ = at > turn.now() ? Phase::set : Phase::running;
    if (phase_ == Phase::set) turn.set_timer(*this, kStart, at);
  }

  // At rank 0.
  Status take(Rank from, const Ready& ready, Turn& turn) {
    if (!is_leader_ || stage_ != Stage::preparing || peers_[from].ready || ready.lap != lap())
      return refuse(from, "an untimely ready");
    note_ready(from, ready.wan_bytes, turn);
    return Ok{};
  }

  Status take(Rank from, const Pong& pong, Turn& turn) {
    if (!is_leader_ || stage_ != Stage::measuring_clocks || from == kLeader)
      return refuse(from, "a stray pong");
    PeerProgress& runner = peers_[from];
    if (runner.pongs == kPings || pong.number != runner.pongs)
      return refuse(from, "a pong that no ping asked for");
    const Time trip = turn.now() - runner.sent;
    if (!runner.trip || trip < *runner.trip) {
      runner.trip = trip;
      runner.ahead = Time{pong.clock} - (runner.sent + trip / 2);
    }
    if (++runner.pongs < kPings) {
      ping(from, turn);
    } else if (--left_ == 0) {
      go(turn);
    }
    return Ok{};
  }

  Status take(Rank from, const Done& done, Turn& turn) {
    if (!is_leader_ || stage_ != Stage::timing || peers_[from].done || done.lap != lap())
      return refuse(from, "an untimely done");
    note_done(from, Time{done.elapsed}, turn);
    return Ok{};
  }

  void call(Turn& turn) {
    stage_ = Stage::preparing;
    left_ = peers_.size();
    std::fill(peers_.begin(), peers_.end(), PeerProgress{});
    open_ = {};
    sent_ = 0;
    phase_ = Phase::called;
    const Call call{calls_++};
    for (Rank rank = 1; rank < peers_.size(); ++rank) turn.send(rank, call, {}, kControl);
  }

  void note_ready(Rank rank, std::uint64_t wan_bytes, Turn& turn) {
    peers_[rank].ready = true;
    sent_ += wan_bytes;
    if (--left_ > 0) return;
    if (!laps_.empty()) laps_.back().wan_bytes = std::max(sent_, sent_before_) - sent_before_;
    sent_before_ = sent_;
    if (over()) return;
    stage_ = Stage::measuring_clocks;
    left_ = peers_.size() - 1;
    if (left_ == 0) return go(turn);
    for (Rank other = 1; other < peers_.size(); ++other) ping(other, turn);
  }

  void note_done(Rank rank, Time elapsed, Turn& turn) {
    peers_[rank].done = true;
    if (elapsed >= open_.elapsed) {
      open_.elapsed = elapsed;
      open_.last = rank;
    }
    if (--left_ > 0) return;
    open_.start = start_;
    laps_.push_back(open_);
    turn.record("lap_s", lap(), seconds(open_.elapsed));
    call(turn);
  }

  void ping(Rank rank, Turn& turn) {
    peers_[rank].sent = turn.now();
    turn.send(rank, Ping{peers_[rank].pongs}, {}, kControl);
  }

  void go(Turn& turn) {
    Time longest{0};
    for (const PeerProgress& runner : peers_)
      longest = std::max(longest, runner.trip.value_or(Time{0}));
    stage_ = Stage::timing;
    left_ = peers_.size();
    const Time at = turn.now() + longest + kMargin;
    for (Rank rank = 1; rank < peers_.size(); ++rank)
      turn.send(rank, Go{lap(), (at + peers_[rank].ahead).count()}, {}, kControl);
    start_at(at, turn);
  }

  const bool is_leader_;
  const Round count_;
  Phase phase_ = Phase::resting;
  Round calls_ = 0;
  Time start_{0};  // start of the lap, in this node's clock

  // At rank 0 only.
  Stage stage_ = Stage::preparing;
  std::vector<PeerProgress> peers_;  // by rank
  std::uint64_t left_ = 0;           // number of nodes that this stage waits for
  Lap open_;                         // current lap, so far
  std::uint64_t sent_ = 0;           // bytes sent by the ready nodes, until they were ready
  std::uint64_t sent_before_ = 0;
  std::vector<Lap> laps_;
};

}  // namespace longhaul::perf
