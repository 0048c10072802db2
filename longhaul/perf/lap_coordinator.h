#pragma once
// LapCoordinator starts a lap at the same time on all nodes of a job, and measures when the
// last node finishes, although every node has its own clock. One instance at each node; rank 0
// coordinates. A lap:
//
//   call, ready   all nodes finish the previous lap and report that they are ready
//   ping, pong    rank 0 measures the offsets of the other clocks
//   go            all begin at one time, sent to each node in its own clock
//   done          each node's duration from that time
//
// A pong's clock counts as that of the middle of its round trip; of kPings the quickest counts
// (Cristian, "Probabilistic clock synchronization", 1989): starts differ by at most half of the
// difference of the two delays. The slowest node determines the duration of the lap.
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
 public:
  using Messages = perf::Messages;
  static constexpr std::uint32_t kPings = 5;
  static constexpr Time kMargin = std::chrono::milliseconds(5);  // beyond the longest round trip
  static constexpr Time kMaxLead = std::chrono::hours(1);        // from a go to its start

  // `laps`: at least one.
  LapCoordinator(const Place&, Round laps);

  void on_start(Turn&) override;
  Status on_message(Rank from, const Message&, Turn&) override;
  void on_timer(TimerId, Turn&) override;
  void state(Archive&) override;

  // --- for its owner, in on_progress --------------------------------------------
  // The previous lap has ended everywhere; the coordinator waits for ready().
  bool called() const { return phase_ == Phase::called; }
  // No further lap follows.
  bool over() const { return calls_ > count_; }
  // The current lap; only after the first call.
  Round lap() const { return calls_ - 1; }
  // `wan_bytes`: what this node has sent to other sites since it began.
  void ready(std::uint64_t wan_bytes, Turn&);
  // The lap has begun and done() was not called yet.
  bool running() const { return phase_ == Phase::running; }
  void done(Turn&);
  // This node has finished.
  bool finished() const { return over() && !called() && left_ == 0; }
  // Rank 0: the finished laps; wan_bytes is valid once finished().
  const std::vector<Lap>& laps() const { return laps_; }
  std::string waiting_for() const;

 private:
  enum class Phase : std::uint8_t { resting, called, ready, set, running };
  enum class Stage : std::uint8_t { preparing, measuring_clocks, timing };
  struct PeerProgress {  // what rank 0 knows of a node, in this lap
    bool ready = false, done = false;
    std::uint32_t pongs = 0;
    Time sent{0};                   // the last ping
    std::optional<Time> trip = {};  // the quickest
    Time ahead{0};                  // how far its clock is before this one
    void state(auto& ar) { ar(ready, done, pongs, sent, trip, ahead); }
  };

  // At every node.
  Status take(Rank from, const Call&, Turn&);
  Status take(Rank from, const Ping&, Turn&);
  Status take(Rank from, const Go&, Turn&);
  void start_at(Time, Turn&);
  // At rank 0.
  Status take(Rank from, const Ready&, Turn&);
  Status take(Rank from, const Pong&, Turn&);
  Status take(Rank from, const Done&, Turn&);
  void call(Turn&);
  void note_ready(Rank, std::uint64_t wan_bytes, Turn&);
  void note_done(Rank, Time elapsed, Turn&);
  void ping(Rank, Turn&);
  void go(Turn&);

  const bool is_leader_;
  const Round count_;
  Phase phase_ = Phase::resting;
  Round calls_ = 0;
  Time start_{0};  // of the lap, in this node's clock

  // At rank 0 only.
  Stage stage_ = Stage::preparing;
  std::vector<PeerProgress> peers_;  // by rank
  std::uint64_t left_ = 0;           // of them, whom this stage waits for
  Lap open_;                         // the lap that runs, so far
  std::uint64_t sent_ = 0;           // by all who are ready, until they were
  std::uint64_t sent_before_ = 0;
  std::vector<Lap> laps_;
};

}  // namespace longhaul::perf
