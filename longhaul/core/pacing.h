#pragma once
// Rules for paced connections that the transport (net/tcp.cpp) and the simulator share. Rates in
// payload bytes per second; infinite: not paced.
#include <algorithm>

#include "longhaul/core/types.h"

namespace longhaul {

// Least time between two restarts of bbr on a paced connection in a pause.
inline constexpr Time kRenewAfter = std::chrono::seconds(3);

// Returns the limit of unsent bytes in the kernel: 30 ms of a paced connection, so that urgent data
// does not wait long behind them; 16 to 256 KiB.
inline int most_unsent(double rate) {
  constexpr double kLeast = 16 * 1024, kMost = 256 * 1024, kTime_s = 0.03;
  return int(std::clamp(rate * kTime_s, kLeast, kMost));
}

}  // namespace longhaul
