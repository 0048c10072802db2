#include "longhaul/codec/cover.h"

#include <algorithm>

namespace longhaul::codec {

std::vector<Range> Cover::gaps(Range at) const {
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

void Cover::add(Range at) {
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

std::vector<Range> Cover::ranges() const {
  std::vector<Range> all;
  for (const auto& [offset, end] : ends_) all.push_back({offset, end - offset});
  return all;
}

void Cover::state(Archive& ar) {
  ar(ends_);
  if (!ar.loading() || ar.failed()) return;
  std::uint64_t last = 0;
  for (const auto& [from, to] : ends_) {
    if (from < last || to <= from) ar.fail("holds stretches of a vector out of order");
    last = to;
  }
}

}  // namespace longhaul::codec
