// What a Group does at a node that comes back to a run it knows nothing of.
//
// The round under way is that of the member with the most means: whoever lacks the last one fetches
// it, and no further one can be formed without this node. All shares of its first epoch are of that
// round, so one that overtakes the reports tells it as well. Until a mean has come here this node
// has none that others could fetch: in a new epoch it begins anew.
#include <algorithm>

#include "longhaul/overlay/group.h"

namespace longhaul::overlay {

Round Group::told(std::uint32_t range) const {
  const auto it = told_.find(range);
  return it == told_.end() ? 0 : it->second;
}

std::optional<Round> Group::next_round(std::uint32_t range) const {
  const Exchange* exchange = find(range);
  if (exchange && !exchange->borrowed) return exchange->next();
  if (common_.newcomer() && (team_.epoch == 0 || frozen())) return std::nullopt;
  return told(range);
}

// A server hears no reports: the shares alone tell it.
Status Group::follow(const Announcement& share, Rank from) {
  const bool must_hear = frozen() || !team_.takes_part();
  if (share.epoch != team_.epoch || find(share.vector.range) || !must_hear) return Ok{};
  const auto found = exchange(share.vector, share.length, share.exact, from);
  if (!found) return found.error();
  (*found)->follow(share.vector.round);
  return Ok{};
}

void Group::forget_borrowed() {
  std::erase_if(exchanges_, [](const auto& entry) { return entry.second.borrowed; });
  told_.clear();
}

void Group::be_told() {
  for (const auto& [rank, rounds] : reports_)
    for (const auto& [range, round] : rounds) told_[range] = std::max(told_[range], round);
  for (auto& [range, exchange] : exchanges_) {
    if (!exchange.borrowed || exchange.next() == told(range)) continue;
    exchange.end_attempts();
    exchange.follow(told(range));  // a share lied
  }
}

}  // namespace longhaul::overlay
