#pragma once
// Messages between LapCoordinators (lap_coordinator.h). Times are nanoseconds: of the named node's
// clock, or a duration.
#include "longhaul/core/message.h"

namespace longhaul::perf {

inline constexpr double kMaxNanoseconds = 0x1p60;  // 36 years; sums of them stay in range

struct Call {
  LONGHAUL_MESSAGE(1, "call");
  Round lap = 0;
  LONGHAUL_FIELDS(lap)
};

struct Ready {
  LONGHAUL_MESSAGE(2, "ready");
  Round lap = 0;
  std::uint64_t wan_bytes = 0;
  LONGHAUL_FIELDS(lap, wan_bytes)
};

struct Ping {
  LONGHAUL_MESSAGE(3, "ping");
  std::uint32_t number = 0;
  LONGHAUL_FIELDS(number)
};

struct Pong {
  LONGHAUL_MESSAGE(4, "pong");
  std::uint32_t number = 0;
  std::int64_t clock = 0;  // the answering node's
  LONGHAUL_FIELDS(number, (clock, .min = 0, .max = kMaxNanoseconds))
};

struct Go {
  LONGHAUL_MESSAGE(5, "go");
  Round lap = 0;
  std::int64_t at = 0;  // in the receiver's clock
  LONGHAUL_FIELDS(lap, (at, .min = -kMaxNanoseconds, .max = kMaxNanoseconds))
};

struct Done {
  LONGHAUL_MESSAGE(6, "done");
  Round lap = 0;
  std::int64_t elapsed = 0;
  LONGHAUL_FIELDS(lap, (elapsed, .min = 0, .max = kMaxNanoseconds))
};

using Messages = MessageList<Call, Ready, Ping, Pong, Go, Done>;

}  // namespace longhaul::perf
