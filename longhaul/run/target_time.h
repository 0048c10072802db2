#pragma once
// When a run reached its target: somewhere between two scores, on a straight line between them.
#include <algorithm>

namespace longhaul::run {

struct TargetTime {
  double at = 0;     // interpolated, in seconds
  double after = 0;  // the last score below the target; 0: the first score had reached it
  double by = 0;     // the first score that reached it
};

// The first score that reaches the target, and the one before it. Values count so that the target
// is reached from below. Without a score before, the target counts as reached when it was scored.
struct Scored {
  double time_s = 0, value = 0;
};
inline TargetTime target_time(const Scored* before, const Scored& reached, double target) {
  if (!before) return {reached.time_s, 0, reached.time_s};
  const double rise = reached.value - before->value;
  const double share = rise > 0 ? std::clamp((target - before->value) / rise, 0.0, 1.0) : 1.0;
  return {before->time_s + share * (reached.time_s - before->time_s), before->time_s,
          reached.time_s};
}

}  // namespace longhaul::run
