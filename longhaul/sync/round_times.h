#pragma once
// RoundTimes is how long the last rounds took, for deadlines that follow them: so many times the
// median of the last 15 rounds, from the third on. Where all rounds may end at a deadline they are
// not to be added: each would make the next deadline longer.
#include <algorithm>
#include <optional>
#include <vector>

#include "longhaul/base/archive.h"
#include "longhaul/base/queue.h"
#include "longhaul/core/types.h"

namespace longhaul::sync {

class RoundTimes {
 public:
  static constexpr std::size_t kRemembered = 15;
  static constexpr std::size_t kEnough = 3;  // for a median

  void add(Time took) {
    took_.push_back(took);
    if (took_.size() > kRemembered) took_.pop_front();
  }
  // Nothing: too few rounds are known. A median counts as a millisecond at least.
  std::optional<Time> medians(double times) const {
    if (took_.size() < kEnough) return std::nullopt;
    std::vector<Time> sorted(took_.begin(), took_.end());
    std::ranges::sort(sorted);
    return from_seconds(times * std::max(seconds(sorted[sorted.size() / 2]), 1e-3));
  }
  void state(Archive& ar) { ar(took_); }

 private:
  Queue<Time> took_;
};

}  // namespace longhaul::sync
