#pragma once
// FactorStore holds the factors of each origin, clock by clock, each part once. Done clocks are
// kept for workers that may lack them if the origin is lost. The owner sets which clocks of an
// origin count: all, until it is lost. For a returned origin, these are the clocks that count from
// before its loss, and all from its entry clock on. Clocks of unknown origins do not count. Not
// from the papers.
#include <algorithm>
#include <map>

#include "longhaul/core/vector_content.h"
#include "longhaul/sync/sfb/headers.h"

namespace longhaul::sync::sfb {

inline constexpr Round kNever = ~Round(0);

struct Span {  // clocks from `from` to before `end`
  Round from = 0, end = 0;
  friend bool operator==(const Span&, const Span&) = default;
  void state(auto& archive) { archive(from, end); }
};

class FactorStore {
 public:
  struct Piece {
    FactorsHeader header;
    VectorContent content;
    void state(Archive& ar) { ar(header, content); }
  };
  using Pieces = std::map<std::uint32_t, Piece>;  // by part

  // `parts`: number of parts of each clock, at least one.
  explicit FactorStore(std::uint32_t parts) : parts_(parts) {}

  // Returns true if the part has not arrived before.
  bool is_new(Rank origin, Round clock, std::uint32_t part) const {
    if (clock < done(origin)) return false;
    const Pieces* pieces = find(origin, clock);
    return !pieces || !pieces->contains(part);
  }

  // Adds a part, which must be new.
  void add(FactorsHeader header, VectorContent content) {
    LH_CHECK(header.part < parts_ && is_new(header.origin, header.clock, header.part));
    Origin& origin = origins_[header.origin];
    Pieces& pieces = origin.clocks[header.clock];
    pieces.emplace(header.part, Piece{header, std::move(content)});
    advance(origin);
  }

  // Returns the clock below which all counted clocks of the origin are complete, or were.
  Round done(Rank origin) const {
    const auto at = origins_.find(origin);
    return at == origins_.end() ? 0 : at->second.done;
  }

  // Returns true if all counted clocks of the origin below `clocks` are complete, or were.
  bool is_complete(Rank rank, Round clocks) const {
    const auto at = origins_.find(rank);
    if (at == origins_.end()) return true;
    return at->second.next_counted(at->second.done) >= clocks;
  }

  // Returns true if all parts of the clock are stored.
  bool is_here(Rank origin, Round clock) const {
    const Pieces* found = find(origin, clock);
    return found && found->size() == parts_;
  }

  // Returns the parts of a complete clock.
  const Pieces& pieces(Rank origin, Round clock) const {
    const Pieces* found = find(origin, clock);
    LH_CHECK(found && found->size() == parts_);
    return *found;
  }

  // Returns the parts of the clock; null if they are dropped, have not arrived, or do not count.
  const Pieces* find(Rank origin, Round clock) const {
    const auto of = origins_.find(origin);
    if (of == origins_.end()) return nullptr;
    const auto at = of->second.clocks.find(clock);
    return at == of->second.clocks.end() ? nullptr : &at->second;
  }

  // Returns the complete clocks, ascending.
  std::vector<Span> held(Rank rank) const {
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

  void drop_before(Round clock) {
    for (auto& [rank, origin] : origins_) {
      auto& clocks = origin.clocks;
      clocks.erase(clocks.begin(), clocks.lower_bound(std::min(clock, origin.done)));
    }
  }

  // Drops the unfinished clocks of a lost origin, which will never be complete.
  void drop_unfinished(Rank rank) {
    const auto at = origins_.find(rank);
    if (at == origins_.end()) return;
    auto& clocks = at->second.clocks;
    clocks.erase(clocks.lower_bound(at->second.done), clocks.end());
  }

  // Sets the clocks of the origin that count: `counted`, ascending, and all from `entry` on
  // (kNever: no others). Drops stored clocks that do not count and are not done.
  void set_counted(Rank rank, std::vector<Span> counted, Round entry) {
    Origin& origin = origins_[rank];
    origin.counted = std::move(counted);
    origin.entry = entry;
    std::erase_if(origin.clocks, [&](const auto& one) {
      return one.first >= origin.done && !origin.counts(one.first);
    });
    advance(origin);
  }

  bool counts(Rank rank, Round clock) const {
    const auto at = origins_.find(rank);
    return at != origins_.end() && at->second.counts(clock);
  }

  Round entry(Rank rank) const {
    const auto at = origins_.find(rank);
    return at == origins_.end() ? kNever : at->second.entry;
  }

  // Marks all clocks before this one as done, without their parts.
  void begin_at(Rank rank, Round clock) {
    Origin& origin = origins_[rank];
    origin.clocks.erase(origin.clocks.begin(), origin.clocks.lower_bound(clock));
    origin.done = clock;
    advance(origin);
  }

  // Forgets the origin: no clock of it counts or has arrived.
  void forget(Rank origin) { origins_.erase(origin); }
  // Forgets all origins.
  void clear() { origins_.clear(); }
  void state(Archive& ar) { ar(origins_); }

 private:
  struct Origin {
    Round done = 0;
    std::map<Round, Pieces> clocks;
    std::vector<Span> counted;
    Round entry = 0;
    bool counts(Round clock) const {
      return clock >= entry || std::ranges::any_of(counted, [&](const Span& span) {
               return clock >= span.from && clock < span.end;
             });
    }

    // Returns this clock if it counts, or else the next that does.
    Round next_counted(Round clock) const {
      Round next = entry == kNever ? kNever : std::max(clock, entry);
      for (const Span& span : counted)
        if (clock < span.end) next = std::min(next, std::max(clock, span.from));
      return next;
    }

    void state(Archive& ar) { ar(done, clocks, counted, entry); }
  };
  void advance(Origin& origin) const {
    while (true) {
      const Round next = origin.next_counted(origin.done);
      if (next == kNever) return;
      origin.done = next;
      const auto at = origin.clocks.find(next);
      if (at == origin.clocks.end() || at->second.size() < parts_) return;
      ++origin.done;
    }
  }

  const std::uint32_t parts_;
  std::map<Rank, Origin> origins_;
};

}  // namespace longhaul::sync::sfb
