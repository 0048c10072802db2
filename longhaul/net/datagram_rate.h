#pragma once
// How fast datagrams are sent to one peer: congestion control that finds the path's bandwidth and
// its round trip without load, paces at the one and keeps at most twice their product under way
// (Cardwell et al., "BBR: congestion-based congestion control", 2016). Loss that the path has
// anyway costs nothing; a round trip in which more than kMuchLoss is lost sets a ceiling a little
// below what came through, which rises slowly again (as later versions of BBR do).
//
// The caller tells what was sent and what the peer reports, and asks when it may send. Time is an
// argument. Memory: 64 bytes for each datagram that is under way, kMostUnderWay at most.
#include <algorithm>
#include <array>
#include <deque>
#include <optional>

#include "longhaul/core/types.h"

namespace longhaul::net {

class DatagramRate {
 public:
  static constexpr double kLeast = 12.5e3, kMost = 1.25e9;  // bytes/s
  static constexpr double kMuchLoss = 0.1, kBelow = 0.85;
  static constexpr Time kLeastTrip = std::chrono::microseconds(20);
  static constexpr std::size_t kMostUnderWay = 65536;                       // datagrams
  static constexpr double kLeastBurst = 2 * 1228, kMostBurst = 256 * 1024;  // bytes that go at once

  // What the peer has got since it met this node.
  struct Got {
    std::uint64_t highest = 0;  // number of the newest; they count from 1
    std::uint64_t count = 0;    // datagrams
    std::uint64_t bytes = 0;
    Time held{0};  // since the newest came
  };

  // `seed`: flows of one link should have different ones.
  explicit DatagramRate(std::uint64_t seed = 1) : drawn_(seed) {}

  // May a datagram be sent now? If not, ask again at next(), or after a report.
  bool may_send(Time now);
  Time next(Time now) const;
  // Every message to that peer, by rising numbers.
  void sent(Time now, std::uint64_t number, std::size_t bytes);
  // Reports may come late, out of order, or be false.
  void report(Time now, const Got&);
  // A round trip of a datagram that waited for nothing, as a question's.
  void trip(Time now, Time took) { learn_trip(now, std::max(kLeastTrip, took)); }

  double rate() const;  // bytes/s
  std::optional<Time> round_trip() const { return least_trip_; }
  std::uint64_t under_way() const { return under_way_; }  // bytes
  double window() const;                                  // most bytes under way

 private:
  enum class Phase : std::uint8_t { startup, drain, probe_rate, probe_trip };
  struct Sent {
    std::uint64_t number = 0;
    std::uint32_t bytes = 0;
    bool was_dry = false;
    Time at{0}, first_at{0}, delivered_at{0};
    std::uint64_t delivered = 0;
  };

  double burst() const;
  void refill(Time now);
  void give_up_on_stalled(Time now);
  void learn_trip(Time now, Time trip);
  void learn_rate(const Sent& newest, Time received_at);
  void end_round();
  void judge_loss(double came);
  void begin_cruise();
  void set_phase(Phase, Time now);
  void advance(Time now);
  double gain() const;
  double estimate() const;  // bytes/s
  double product() const;   // bytes: estimate times round trip

  // What is under way, and what was delivered.
  std::deque<Sent> sent_;
  std::uint64_t under_way_ = 0, delivered_ = 0, dry_until_ = 0;
  Time first_at_{0}, delivered_at_{0};
  Got last_;
  Time last_report_at_{0};
  // The path.
  static constexpr std::size_t kRounds = 10;
  std::array<double, kRounds> rates_{};  // the highest of each of the last rounds, bytes/s
  std::uint64_t round_ = 0, round_ends_ = 0;
  std::uint64_t judged_sent_ = 0, judged_got_ = 0;  // datagrams, since loss was judged
  bool round_was_dry_ = false;
  std::optional<Time> least_trip_;
  Time least_trip_at_{0};
  std::optional<double> ceiling_;  // bytes/s
  double rise_ = 0;                // of the ceiling, bytes a round trip; doubles in each
  // What it does.
  Phase phase_ = Phase::startup;
  Time phase_at_{0};
  enum class Step : std::uint8_t { cruise, above, below } step_ = Step::cruise;
  int trips_ = 1;  // round trips that the step lasts
  std::uint64_t drawn_;
  double full_rate_ = 0;
  int full_rounds_ = 0;
  double tokens_ = kLeastBurst;
  Time filled_{0};
  bool waited_for_room_ = false;
};

}  // namespace longhaul::net
