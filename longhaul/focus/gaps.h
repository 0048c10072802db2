#pragma once
// Stretches of time of which objects are not indexed: they were dropped, or never came.
#include <algorithm>
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

  void add(Interval gap) {
    const auto first = std::find_if(gaps_.begin(), gaps_.end(),
                                    [&](const Interval& g) { return g.to_ns >= gap.from_ns; });
    auto last = first;
    for (; last != gaps_.end() && last->from_ns <= gap.to_ns; ++last) {
      gap.from_ns = std::min(gap.from_ns, last->from_ns);
      gap.to_ns = std::max(gap.to_ns, last->to_ns);
    }
    gaps_.insert(gaps_.erase(first, last), gap);
    if (gaps_.size() <= kMost) return;
    auto nearest = gaps_.begin();
    const auto space = [](auto it) { return std::next(it)->from_ns - it->to_ns; };
    for (auto it = gaps_.begin(); std::next(it) != gaps_.end(); ++it)
      if (space(it) < space(nearest)) nearest = it;
    nearest->to_ns = std::next(nearest)->to_ns;
    gaps_.erase(std::next(nearest));
  }

  // ascending, clipped
  std::vector<Interval> within(const Interval& window) const {
    std::vector<Interval> inside;
    for (const Interval& gap : gaps_)
      if (gap.meets(window))
        inside.push_back(
            {std::max(gap.from_ns, window.from_ns), std::min(gap.to_ns, window.to_ns)});
    return inside;
  }

  void state(auto& archive) { archive(gaps_); }

 private:
  std::vector<Interval> gaps_;  // ascending, apart
};

}  // namespace longhaul::focus
