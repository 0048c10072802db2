#pragma once
// The congestion control BBR, version 1, packet by packet, as in Linux. Two estimates decide how
// many packets may be in flight, and how fast they leave. One is the largest delivery rate of the
// last ten round trips, the other the shortest round trip of the last ten seconds.
//
//   startup    2.89 x the rate, until three round trips bring no quarter more
//   drain      the inverse, until the queue of the startup has gone
//   probe      1.25 x for a round trip, 0.75 x for one, 1 x for six
//   rest       4 packets in flight for 200 ms, every 10 s without a shorter round trip
//
// Sources: Cardwell et al., "BBR: Congestion-based congestion control", ACM Queue 14(5), 2016;
// draft-cardwell-iccrg-bbr-congestion-control-00; draft-cheng-iccrg-delivery-rate-estimation-00.
// Linux adds a margin of 1 %, room for packets that sender and receiver hold back, and a fixed rate
// behind policers.
//
// A plain value without clock. Packets have one size. The owner (sim/tcp_endpoint.h) counts packets
// in flight and finds losses.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <optional>

#include "longhaul/base/rng.h"
#include "longhaul/flow/rate.h"

namespace longhaul::flow {

using Nanoseconds = std::chrono::nanoseconds;

// An acknowledgement, as a sample of the delivery rate (in packets).
struct RateSample {
  Nanoseconds now{0};
  std::uint64_t delivered = 0;        // packets since the acknowledged packet was sent
  double interval_s = 0;              // time in which they were delivered; 0: no sample
  std::uint64_t prior_delivered = 0;  // delivered by the connection when that packet was sent
  std::uint64_t prior_in_flight = 0;  // before this acknowledgement
  std::uint32_t acked = 0;            // packets that it acknowledges for the first time
  std::uint32_t losses = 0;           // losses that it shows
  std::optional<double> rtt_s;        // round trip of the newest packet, sent once
  bool app_limited = false;
  bool ack_delayed = false;  // the receiver may have held it back
};

// The connection's counters at that time.
struct Counts {
  std::uint64_t delivered = 0, lost = 0;
  std::uint64_t in_flight = 0;
  bool recovering = false;   // a lost packet is not replaced yet
  Nanoseconds next_send{0};  // as paced
};

class Bbr {
 public:
  static constexpr double kFirstWindow = 10;

  // `random` draws the phase of its cycle at which it begins to probe.
  explicit Bbr(double bytes_per_packet, Random random) : mss_(bytes_per_packet), random_(random) {}

  // Called when the connection is open. `rtt_s`: round trip of its first packets.
  void begin(double rtt_s, Nanoseconds now);
  // Starts again as by begin(), with the window that it has.
  void renew(double rtt_s, Nanoseconds now);
  bool is_paced() const { return most_pacing_ < kUnlimited; }
  // Called when a single small packet was answered in a pause.
  void on_ping(double rtt_s, Nanoseconds now);
  // Returns true while it rests. The owner then treats the connection as short of data.
  bool on_ack(const RateSample&, const Counts&);
  void on_timeout(const Counts&, Nanoseconds now);  // packets in flight count as lost
  // Called for data after a pause in which nothing was in flight and the sender had nothing to
  // send.
  void on_restart(Nanoseconds now);

  double window() const { return window_; }                          // packets
  double pacing() const { return std::min(pacing_, most_pacing_); }  // packets a second
  void limit_pacing(double most) { most_pacing_ = most; }            // from now on
  std::uint32_t burst() const;                                       // packets that leave together
  bool in_startup() const { return mode_ == Mode::startup; }

 private:
  enum class Mode : std::uint8_t { startup, drain, probe, rest };
  struct Peak {  // the three best rates of the last kRounds round trips, oldest first
    struct At {
      std::uint64_t round = 0;
      double rate = 0;
    };
    std::array<At, 3> best = {};
    void note(std::uint64_t round, double rate);
    double value() const { return best[0].rate; }
  };

  double rate() const { return fixed_in_use_ ? fixed_rate_ : peak_.value(); }
  double product(double rate, double gain) const;
  double budget(double window) const;
  double inflight_at(double rate, double gain) const { return budget(product(rate, gain)); }
  double in_net(double in_flight, const Counts&, Nanoseconds now) const;

  void update_rate(const RateSample&, const Counts&);
  void update_aggregation(const RateSample&);
  void update_cycle(const RateSample&, const Counts&);
  void update_full(const RateSample&);
  void update_drain(const RateSample&, const Counts&);
  bool update_round_trip(const RateSample&, const Counts&);
  void end_rest(Nanoseconds now);
  void begin_probing(Nanoseconds now);
  void advance_phase(Nanoseconds now);
  void set_gains();
  void set_pacing(double rate, double gain);
  void set_window(const RateSample&, const Counts&);
  bool recover(const RateSample&, const Counts&, double& window);

  // The rate that a policer lets through.
  void sample_policer(const RateSample&, const Counts&);
  void begin_interval(const Counts&, Nanoseconds now);
  void forget_policer(const Counts&, Nanoseconds now);

  double mss_;
  Random random_;
  Mode mode_ = Mode::startup;
  double window_ = kFirstWindow, prior_window_ = 0;
  double most_pacing_ = kUnlimited, pacing_ = 0, pacing_gain_ = kHigh, window_gain_ = kHigh;

  Peak peak_;
  std::uint64_t round_ = 0, next_round_at_ = 0;  // delivered
  bool round_start_ = false;
  std::optional<double> rtt_s_;
  Nanoseconds rtt_at_{0};
  std::optional<Nanoseconds> rest_ends_;
  bool rest_round_done_ = false, restarted_ = false;

  double full_rate_ = 0;
  std::uint32_t full_count_ = 0;
  bool full_ = false;
  std::uint32_t phase_ = 0;
  Nanoseconds phase_at_{0};

  bool conserving_ = false, was_recovering_ = false;

  std::array<double, 2> extra_ = {};
  std::uint32_t extra_at_ = 0, extra_rounds_ = 0;
  Nanoseconds epoch_at_{0};
  double epoch_acked_ = 0;

  bool sampling_ = false, fixed_in_use_ = false;
  double fixed_rate_ = 0;
  std::uint32_t fixed_rounds_ = 0;
  Nanoseconds interval_at_{0};
  std::uint64_t interval_delivered_ = 0, interval_lost_ = 0;

  static constexpr double kHigh = 2885.0 / 1000 + 0.001;
};

}  // namespace longhaul::flow
