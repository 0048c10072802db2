#pragma once
// What the transport (net/tcp.cpp) does with a connection that is paced, and what the simulator
// does like it. Rates in payload bytes per second; infinite: not paced.
#include <algorithm>

#include "longhaul/core/types.h"

namespace longhaul {

// bbr starts anew on a paced connection in a pause, at most this often.
inline constexpr Time kRenewAfter = std::chrono::seconds(3);

// Bytes that the kernel holds and has not sent: 30 ms of a paced connection, so that urgent data
// does not wait long behind them, and at most 256 KiB.
inline int most_unsent(double rate) {
  constexpr double kLeast = 16 * 1024, kMost = 256 * 1024, kTime_s = 0.03;
  return int(std::clamp(rate * kTime_s, kLeast, kMost));
}

}  // namespace longhaul
