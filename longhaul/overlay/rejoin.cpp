// What a Group does at a returned node, which does not know the state of the run.
//
// The round under way is that of the member with the most means: members without the last mean
// fetch it, and no later mean can be formed without this node. All announcements of its first epoch
// are of that round, so an announcement that overtakes the reports names the round, too. Until this
// node has had a mean, it has none that others could fetch, so it starts over in each epoch. But a
// round that it has begun in the knowledge of the run's state (Contribution::knows_round) it
// repeats like any other member: it can have that from another exchange of the group, which is of
// another part of the model.
#include <algorithm>

#include "longhaul/overlay/group.h"

namespace longhaul::overlay {

Round Group::told(std::uint32_t range) const {
  const auto it = told_.find(range);
  return it == told_.end() ? 0 : it->second;
}

std::optional<Round> Group::next_round(std::uint32_t range) const {
  const Exchange* exchange = find(range);
  if (exchange && !exchange->is_told()) return exchange->next();
  if (common_.newcomer() && (team_.epoch == 0 || frozen())) return std::nullopt;
  return told(range);
}

// A server gets no reports: it learns the round from announcements.
Status Group::follow(const Announcement& share, Rank from) {
  const bool must_hear = frozen() || !team_.takes_part();
  if (share.epoch != team_.epoch || find(share.vector.range) || !must_hear) return Ok{};
  LH_LET(found, exchange(share.vector, share.length, share.exact, from));
  found->follow(share.vector.round);
  return Ok{};
}

void Group::forget_borrowed() {
  std::erase_if(exchanges_, [](const auto& entry) { return entry.second.is_told(); });
  told_.clear();
}

void Group::be_told() {
  for (const auto& [rank, rounds] : reports_)
    for (const auto& [range, round] : rounds) told_[range] = std::max(told_[range], round);
  for (auto& [range, exchange] : exchanges_) {
    if (!exchange.is_told() || exchange.next() == told(range)) continue;
    exchange.end_attempts();
    exchange.follow(told(range));  // an announcement was wrong
  }
}

}  // namespace longhaul::overlay
