#pragma once
// The mean time that packets wait at a full port with one drop-tail queue for all flows, and its
// effect on bbr. Seconds and bytes per second. Pure functions; docs/simulator.md explains them.
//
// Sources: bbr keeps at most twice its rate x its shortest round trip in flight (Cardwell et al.,
// "BBR: Congestion-based congestion control", ACM Queue 14(5), 2016), and several of them do (Hock,
// Bless, Zitterbart, "Experimental evaluation of BBR congestion control", ICNP 2017). Cubic grows
// until the queue drops, and then falls to 0.7 (RFC 9438).
#include <algorithm>
#include <cstdint>

#include "longhaul/flow/tcp.h"

namespace longhaul::flow {

// Returns the mean wait. `flows`: those of the class whose rate this port limits. `trip_s`: their
// mean round trip without queues, weighted by rate. `queue_s`: capacity of the queue.
inline double queue_wait_s(const Tcp& tcp, std::uint32_t flows, double trip_s, double queue_s) {
  // Mean of cubic's window over time while it grows from 0.7 of the largest to the largest: its
  // cubic function W(t) = C (t - K)^3 + 1 with C K^3 = 0.3 has the mean 1 - 0.3 / 4.
  constexpr double kCubicMean = 0.925;
  if (flows == 0) return 0;
  if (tcp.control == Tcp::Control::cubic)
    return std::clamp(kCubicMean * (trip_s + queue_s) - trip_s, 0.0, queue_s);
  // One connection finds the rate of the port and fills no queue. Several have each seen more than
  // their share, and their data in flight fills the port for two round trips.
  return flows == 1 ? 0 : std::min(trip_s, queue_s);
}

// A bbr connection's estimate of the rate of its path: the largest of the last ten round trips. In
// each real round trip it may send twice that rate x its shortest round trip. So it cannot grow
// where queues, on its path or on that of its acknowledgements, double the round trip.
class BbrEstimate {
 public:
  // Called after a round trip in which the connection had this rate.
  void round(double rate) {
    if (rate >= rate_ * (1 - 1e-9) || ++age_ >= kRounds) begin(rate);
  }

  void begin(double rate) { rate_ = rate, age_ = 0; }  // slow start has ended here
  // Returns the most that it sends. It keeps its own rate, however long packets wait. 0 if nothing
  // is known.
  double most(const Tcp& tcp, double trip_s, double real_trip_s) const {
    if (rate_ <= 0 || real_trip_s <= 0) return 0;
    const double growth = std::clamp(2 * trip_s / real_trip_s, 1.0, 2.0);
    return std::max(rate_ * growth, 4 * tcp.packet() / real_trip_s);
  }

  // Returns false after loading a damaged file.
  bool good() const { return rate_ >= 0 && rate_ < 1e18; }
  void state(auto& ar) { ar(rate_, age_); }

 private:
  static constexpr std::uint32_t kRounds = 10;
  double rate_ = 0;
  std::uint32_t age_ = 0;  // round trips since this rate
};

}  // namespace longhaul::flow
