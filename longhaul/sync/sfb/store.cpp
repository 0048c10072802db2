#include "longhaul/sync/sfb/store.h"

#include <algorithm>

namespace longhaul::sync::sfb {

bool FactorStore::is_new(Rank origin, Round clock, std::uint32_t part) const {
  if (clock < done(origin)) return false;
  const Pieces* pieces = find(origin, clock);
  return !pieces || !pieces->contains(part);
}

void FactorStore::add(FactorsHeader header, VectorContent content) {
  LH_CHECK(header.part < parts_ && is_new(header.origin, header.clock, header.part));
  Origin& origin = origins_[header.origin];
  Pieces& pieces = origin.clocks[header.clock];
  pieces.emplace(header.part, Piece{header, std::move(content)});
  advance(origin);
}

void FactorStore::advance(Origin& origin) const {
  while (true) {
    const Round next = origin.next_counted(origin.done);
    if (next == kNever) return;
    origin.done = next;
    const auto at = origin.clocks.find(next);
    if (at == origin.clocks.end() || at->second.size() < parts_) return;
    ++origin.done;
  }
}

bool FactorStore::Origin::counts(Round clock) const {
  return clock >= entry || std::ranges::any_of(counted, [&](const Span& span) {
           return clock >= span.from && clock < span.end;
         });
}

Round FactorStore::Origin::next_counted(Round clock) const {
  Round next = entry == kNever ? kNever : std::max(clock, entry);
  for (const Span& span : counted)
    if (clock < span.end) next = std::min(next, std::max(clock, span.from));
  return next;
}

bool FactorStore::is_complete(Rank rank, Round clocks) const {
  const auto at = origins_.find(rank);
  if (at == origins_.end()) return true;
  return at->second.next_counted(at->second.done) >= clocks;
}

std::vector<Span> FactorStore::held(Rank rank) const {
  std::vector<Span> spans;
  const auto at = origins_.find(rank);
  if (at == origins_.end()) return spans;
  for (const auto& [clock, pieces] : at->second.clocks) {
    if (pieces.size() < parts_) continue;
    if (!spans.empty() && spans.back().end == clock)
      ++spans.back().end;
    else
      spans.push_back({clock, clock + 1});
  }
  return spans;
}

void FactorStore::set_counted(Rank rank, std::vector<Span> counted, Round entry) {
  Origin& origin = origins_[rank];
  origin.counted = std::move(counted);
  origin.entry = entry;
  std::erase_if(origin.clocks, [&](const auto& one) {
    return one.first >= origin.done && !origin.counts(one.first);
  });
  advance(origin);
}

bool FactorStore::counts(Rank rank, Round clock) const {
  const auto at = origins_.find(rank);
  return at != origins_.end() && at->second.counts(clock);
}

Round FactorStore::entry(Rank rank) const {
  const auto at = origins_.find(rank);
  return at == origins_.end() ? kNever : at->second.entry;
}

void FactorStore::begin_at(Rank rank, Round clock) {
  Origin& origin = origins_[rank];
  origin.clocks.erase(origin.clocks.begin(), origin.clocks.lower_bound(clock));
  origin.done = clock;
  advance(origin);
}

Round FactorStore::done(Rank origin) const {
  const auto at = origins_.find(origin);
  return at == origins_.end() ? 0 : at->second.done;
}

const FactorStore::Pieces* FactorStore::find(Rank origin, Round clock) const {
  const auto of = origins_.find(origin);
  if (of == origins_.end()) return nullptr;
  const auto at = of->second.clocks.find(clock);
  return at == of->second.clocks.end() ? nullptr : &at->second;
}

bool FactorStore::is_here(Rank origin, Round clock) const {
  const Pieces* found = find(origin, clock);
  return found && found->size() == parts_;
}

const FactorStore::Pieces& FactorStore::pieces(Rank origin, Round clock) const {
  const Pieces* found = find(origin, clock);
  LH_CHECK(found && found->size() == parts_);
  return *found;
}

void FactorStore::drop_before(Round clock) {
  for (auto& [rank, origin] : origins_) {
    auto& clocks = origin.clocks;
    clocks.erase(clocks.begin(), clocks.lower_bound(std::min(clock, origin.done)));
  }
}

void FactorStore::drop_unfinished(Rank rank) {
  const auto at = origins_.find(rank);
  if (at == origins_.end()) return;
  auto& clocks = at->second.clocks;
  clocks.erase(clocks.lower_bound(at->second.done), clocks.end());
}

}  // namespace longhaul::sync::sfb
