#pragma once
// The end of a wait: a time, or a stop request.
#include <chrono>
#include <functional>

#include "longhaul/core/types.h"

namespace longhaul::doctor {

using Clock = std::chrono::steady_clock;
using Stop = std::function<bool()>;  // asked from any thread, several times a second

struct Deadline {
  Clock::time_point end;
  Stop stop;

  static Deadline within(Time time, Stop stop) { return {Clock::now() + time, std::move(stop)}; }
  // The same with an earlier end.
  Deadline at_most(Time time) const { return {std::min(end, Clock::now() + time), stop}; }
  bool stopped() const { return stop && stop(); }
};

}  // namespace longhaul::doctor
