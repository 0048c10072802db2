#pragma once
// How long packets wait at a full port with one drop-tail queue for all flows, in the mean, and
// what waiting does to bbr. Seconds and bytes per second. Pure functions; docs/simulator.md derives
// them.
//
// Sources: bbr keeps at most twice its rate x its shortest round trip in flight (Cardwell et al.,
// "BBR: Congestion-based congestion control", ACM Queue 14(5), 2016), and several of them do (Hock,
// Bless, Zitterbart, "Experimental evaluation of BBR congestion control", ICNP 2017). Cubic grows
// until the queue drops, and then falls to 0.7 (RFC 9438).
#include <algorithm>
#include <cstdint>

#include "longhaul/flow/tcp.h"

namespace longhaul::flow {

// `flows`: those of the class whose rate this port limits. `trip_s`: their mean round trip without
// queues, weighted by rate. `queue_s`: what the queue holds.
inline double queue_wait_s(const Tcp& tcp, std::uint32_t flows, double trip_s, double queue_s) {
  // Of cubic's window, over time, where it grows by its cubic function from 0.7 of the largest to
  // the largest: W(t) = C (t - K)^3 + 1 with C K^3 = 0.3 has the mean 1 - 0.3 / 4.
  constexpr double kCubicMean = 0.925;
  if (flows == 0) return 0;
  if (tcp.control == Tcp::Control::cubic)
    return std::clamp(kCubicMean * (trip_s + queue_s) - trip_s, 0.0, queue_s);
  // One connection finds the rate of the port and fills no queue. Of several each has seen more
  // than its share, and what they may have in flight fills the port for two round trips.
  return flows == 1 ? 0 : std::min(trip_s, queue_s);
}

// What bbr knows of the rate of its path: the largest of the last ten round trips. It may send
// twice that x its shortest round trip in each real one, so it cannot grow where queues, on its way
// or on that of its acknowledgements, double the round trip.
class BbrEstimate {
 public:
  // A round trip is over, in which the connection had this rate.
  void round(double rate) {
    if (rate >= rate_ * (1 - 1e-9) || ++age_ >= kRounds) begin(rate);
  }

  void begin(double rate) { rate_ = rate, age_ = 0; }  // slow start has ended here
  // The most that it sends. Its own rate it keeps, however long packets wait. 0 if nothing is
  // known.
  double most(const Tcp& tcp, double trip_s, double real_trip_s) const {
    if (rate_ <= 0 || real_trip_s <= 0) return 0;
    const double growth = std::clamp(2 * trip_s / real_trip_s, 1.0, 2.0);
    return std::max(rate_ * growth, 4 * tcp.packet() / real_trip_s);
  }

  bool good() const {
    return rate_ >= 0 && rate_ < 1e18;
  }  // after loading, perhaps of a damaged file
  void state(auto& ar) { ar(rate_, age_); }

 private:
  static constexpr std::uint32_t kRounds = 10;
  double rate_ = 0;
  std::uint32_t age_ = 0;  // round trips since it was seen
};

}  // namespace longhaul::flow
