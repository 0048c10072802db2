#pragma once
// How long packets wait at a full port with one drop-tail queue for all flows, in the mean, and
// what waiting does to bbr. Seconds and bytes per second. Pure functions; docs/simulator.md derives
// them.
//
// Sources: bbr keeps at most twice its rate x its shortest round trip in flight (Cardwell et al.,
// "BBR: Congestion-based congestion control", ACM Queue 14(5), 2016), and several of them do (Hock,
// Bless, Zitterbart, "Experimental evaluation of BBR congestion control", ICNP 2017). Cubic grows
// until the queue drops, and then falls to 0.7 (RFC 9438).
#include <cstdint>

#include "longhaul/flow/tcp.h"

namespace longhaul::flow {

// `flows`: those of the class whose rate this port limits. `trip_s`: their mean round trip without
// queues, weighted by rate. `queue_s`: what the queue holds.
double queue_wait_s(const Tcp&, std::uint32_t flows, double trip_s, double queue_s);

// What bbr knows of the rate of its path: the largest of the last ten round trips. It may send
// twice that x its shortest round trip in each real one, so it cannot grow where queues, on its way
// or on that of its acknowledgements, double the round trip.
class BbrEstimate {
 public:
  // A round trip is over, in which the connection had this rate.
  void round(double rate);
  void begin(double rate) { rate_ = rate, age_ = 0; }  // slow start has ended here
  // The most that it sends. Its own rate it keeps, however long packets wait. 0 if nothing is
  // known.
  double most(const Tcp&, double trip_s, double real_trip_s) const;
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
