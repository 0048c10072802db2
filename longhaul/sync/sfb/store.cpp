#include "longhaul/sync/sfb/store.h"

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
  for (auto at = origin.clocks.find(origin.done);
       at != origin.clocks.end() && at->first == origin.done && at->second.size() == parts_; ++at)
    ++origin.done;
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
