// What AgreedMean does at a node that comes back to a run it knows nothing of.
//
// The round under way is that of the member with the most means: whoever lacks the last one fetches
// it, and no further one can be formed without this node. All shares of its first epoch are of that
// round, so one that overtakes the reports tells it as well. Until a mean has come here this node
// has none that others could fetch: in a new view it begins anew.
#include <algorithm>

#include "longhaul/overlay/agreed.h"

namespace longhaul::overlay {

Round AgreedMean::told(Id id) const {
  const auto it = told_.find(id);
  return it == told_.end() ? 0 : it->second;
}

std::optional<Round> AgreedMean::next_round(std::uint32_t group, std::uint32_t range) const {
  const Sequence* sequence = find({group, range});
  if (sequence && !sequence->borrowed) return sequence->next;
  if (newcomer() && (team_.epoch == 0 || !unheard_.empty())) return std::nullopt;
  return told({group, range});
}

// A server hears no reports: the shares alone tell it.
Status AgreedMean::follow(const Share& share) {
  const Id id{share.vector.group, share.vector.range};
  const bool must_hear = !unheard_.empty() || !team_.takes_part();
  if (share.epoch != team_.epoch || find(id) || !must_hear) return Ok{};
  const auto found = sequence(id, share.length, share.exact);
  if (!found) return found.error();
  (*found)->next = (*found)->lowest = share.vector.round;
  return Ok{};
}

void AgreedMean::forget_borrowed() {
  std::erase_if(sequences_, [](const auto& entry) { return entry.second.borrowed; });
  told_.clear();
}

void AgreedMean::be_told() {
  for (const auto& [rank, rounds] : reports_)
    for (const auto& [id, round] : rounds) told_[id] = std::max(told_[id], round);
  for (auto& [id, sequence] : sequences_) {
    if (!sequence.borrowed || sequence.next == told(id)) continue;
    while (!sequence.attempts.empty()) drop(sequence, sequence.attempts.begin()->first);
    sequence.next = sequence.lowest = told(id);  // a share lied
  }
}

}  // namespace longhaul::overlay
