#include "longhaul/overlay/tsengine_gather.h"

#include <algorithm>

namespace longhaul::overlay::tsengine {

bool Gather::is_ready(Rank rank) const {
  return std::find(ready_.begin(), ready_.end(), rank) != ready_.end();
}

void Gather::ready(Rank rank) {
  LH_CHECK(!is_ready(rank));
  ready_.push_back(rank);
}

Pair Gather::pair(Rank first, Rank second, const Rate& rate) const {
  if (first == server_) return {second, first};
  if (second == server_) return {first, second};
  const double there = rate(first, second).value_or(-1), back = rate(second, first).value_or(-1);
  return there > back ? Pair{first, second} : Pair{second, first};
}

std::optional<Pair> Gather::match(const Slots& slots, const Rate& rate) {
  const auto sends = [&](Rank r) { return r != server_ && slots.out_free(r); };
  const auto takes = [&](Rank r) { return slots.in_free(r); };
  if (std::none_of(ready_.begin(), ready_.end(), sends)) return std::nullopt;
  if (std::none_of(ready_.begin(), ready_.end(), takes)) return std::nullopt;
  for (auto first = ready_.begin(); first != ready_.end(); ++first) {
    if (!sends(*first) && !takes(*first)) continue;
    for (auto second = first + 1; second != ready_.end(); ++second) {
      const Pair found = pair(*first, *second, rate);
      if (!slots.out_free(found.from) || !slots.in_free(found.to)) continue;
      ready_.erase(second);
      ready_.erase(first);
      return found;
    }
  }
  return std::nullopt;
}

}  // namespace longhaul::overlay::tsengine
