#pragma once
// Which elements of a vector something was done for: disjoint stretches, ascending, none touching
// the next.
#include <algorithm>
#include <map>
#include <vector>

#include "longhaul/base/archive.h"
#include "longhaul/core/types.h"

namespace longhaul::codec {

class Cover {
 public:
  // The parts of `at` that are not covered, ascending.
  std::vector<Range> gaps(Range at) const {
    std::vector<Range> found;
    std::uint64_t next = at.offset;
    for (const auto& [offset, end] : ends_) {
      if (end <= next) continue;
      if (offset >= at.end()) break;
      if (offset > next) found.push_back({next, offset - next});
      next = end;
    }
    if (next < at.end()) found.push_back({next, at.end() - next});
    return found;
  }

  void add(Range at) {
    if (at.length == 0) return;
    std::uint64_t begin = at.offset, end = at.end();
    auto it = ends_.upper_bound(begin);
    if (it != ends_.begin() && std::prev(it)->second >= begin) --it;
    while (it != ends_.end() && it->first <= end) {
      begin = std::min(begin, it->first);
      end = std::max(end, it->second);
      it = ends_.erase(it);
    }
    ends_[begin] = end;
  }

  void clear() { ends_.clear(); }
  bool empty() const { return ends_.empty(); }
  std::vector<Range> ranges() const {
    std::vector<Range> all;
    for (const auto& [offset, end] : ends_) all.push_back({offset, end - offset});
    return all;
  }

  // Behind the last element that is covered.
  std::uint64_t end() const { return ends_.empty() ? 0 : ends_.rbegin()->second; }
  void state(Archive& ar) {
    ar(ends_);
    if (!ar.loading() || ar.failed()) return;
    std::uint64_t last = 0;
    for (const auto& [from, to] : ends_) {
      if (from < last || to <= from) ar.fail("holds stretches of a vector out of order");
      last = to;
    }
  }

 private:
  std::map<std::uint64_t, std::uint64_t> ends_;  // offset -> end
};

}  // namespace longhaul::codec
