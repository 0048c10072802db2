#include "longhaul/focus/gaps.h"

#include <algorithm>

namespace longhaul::focus {

void Gaps::add(Interval gap) {
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

std::vector<Interval> Gaps::within(const Interval& window) const {
  std::vector<Interval> inside;
  for (const Interval& gap : gaps_)
    if (gap.meets(window))
      inside.push_back({std::max(gap.from_ns, window.from_ns), std::min(gap.to_ns, window.to_ns)});
  return inside;
}

}  // namespace longhaul::focus
