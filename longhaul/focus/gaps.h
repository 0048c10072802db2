#pragma once
// Stretches of time of which objects are not indexed: they were dropped, or never came.
#include <vector>

#include "longhaul/core/types.h"

namespace longhaul::focus {

// Both ends belong to it; in the time of the objects.
struct Interval {
  std::int64_t from_ns = 0, to_ns = 0;
  bool meets(const Interval& other) const {
    return from_ns <= other.to_ns && other.from_ns <= to_ns;
  }
  friend bool operator==(const Interval&, const Interval&) = default;
  LONGHAUL_FIELDS(from_ns, to_ns)
};

class Gaps {
 public:
  static constexpr std::size_t kMost = 1000;  // beyond it the two nearest in order become one

  void add(Interval);
  std::vector<Interval> within(const Interval& window) const;  // ascending, clipped
  void state(auto& archive) { archive(gaps_); }

 private:
  std::vector<Interval> gaps_;  // ascending, apart
};

}  // namespace longhaul::focus
