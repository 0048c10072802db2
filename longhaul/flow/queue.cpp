#include "longhaul/flow/queue.h"

#include <algorithm>

namespace longhaul::flow {
namespace {

// Of cubic's window, over time, where it grows by its cubic function from 0.7 of the largest to the
// largest: W(t) = C (t - K)^3 + 1 with C K^3 = 0.3 has the mean 1 - 0.3 / 4.
constexpr double kCubicMean = 0.925;

}  // namespace

double queue_wait_s(const Tcp& tcp, std::uint32_t flows, double trip_s, double queue_s) {
  if (flows == 0) return 0;
  if (tcp.control == Tcp::Control::cubic)
    return std::clamp(kCubicMean * (trip_s + queue_s) - trip_s, 0.0, queue_s);
  // One connection finds the rate of the port and fills no queue. Of several each has seen more
  // than its share, and what they may have in flight fills the port for two round trips.
  return flows == 1 ? 0 : std::min(trip_s, queue_s);
}

void BbrEstimate::round(double rate) {
  if (rate >= rate_ * (1 - 1e-9) || ++age_ >= kRounds) begin(rate);
}

double BbrEstimate::most(const Tcp& tcp, double trip_s, double real_trip_s) const {
  if (rate_ <= 0 || real_trip_s <= 0) return 0;
  const double growth = std::clamp(2 * trip_s / real_trip_s, 1.0, 2.0);
  return std::max(rate_ * growth, 4 * tcp.packet() / real_trip_s);
}

}  // namespace longhaul::flow
