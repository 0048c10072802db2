#pragma once
// FactorStore holds what has come of each origin, clock by clock: each part once. What is done is
// kept for those who may lack it if its origin is lost. It is told which clocks of an origin count:
// all, until it is lost; of one that has come back those that count of its life before, and all
// from the clock on that it entered with. Of origins that it knows nothing of none do. Ours.
#include <map>

#include "longhaul/core/vector_content.h"
#include "longhaul/sync/sfb/headers.h"

namespace longhaul::sync::sfb {

inline constexpr Round kNever = ~Round(0);

struct Span {  // of clocks, from one to before another
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

  // `parts`: of each clock, at least one.
  explicit FactorStore(std::uint32_t parts) : parts_(parts) {}

  // Has it not come before?
  bool is_new(Rank origin, Round clock, std::uint32_t part) const;
  // It is new.
  void add(FactorsHeader, VectorContent);
  // Those of its clocks below that count are here in full, or were.
  Round done(Rank origin) const;
  // Is it so of all of its clocks below?
  bool is_complete(Rank origin, Round clocks) const;
  bool is_here(Rank origin, Round clock) const;  // in full
  // The parts of a clock that is here in full.
  const Pieces& pieces(Rank origin, Round clock) const;
  // Of the clock, or null if it has been dropped, has not come, or does not count.
  const Pieces* find(Rank origin, Round clock) const;
  // Which clocks are here in full, ascending.
  std::vector<Span> held(Rank origin) const;
  void drop_before(Round clock);
  // What is not done of this origin, who is lost, will never be.
  void drop_unfinished(Rank origin);

  // From now on these of its clocks count, ascending, and all from `entry` on (kNever: no others).
  // What is here of others, and not done, is dropped.
  void set_counted(Rank origin, std::vector<Span>, Round entry);
  bool counts(Rank origin, Round clock) const;
  Round entry(Rank origin) const;
  // What is before this clock is over, without having been here.
  void begin_at(Rank origin, Round clock);
  // Nothing of this origin counts, or has come.
  void forget(Rank origin) { origins_.erase(origin); }
  // As in the beginning, of all origins.
  void clear() { origins_.clear(); }
  void state(Archive& ar) { ar(origins_); }

 private:
  struct Origin {
    Round done = 0;
    std::map<Round, Pieces> clocks;
    std::vector<Span> counted;
    Round entry = 0;
    bool counts(Round clock) const;
    Round next_counted(Round clock) const;  // this clock, or the next that counts
    void state(Archive& ar) { ar(done, clocks, counted, entry); }
  };
  void advance(Origin&) const;

  const std::uint32_t parts_;
  std::map<Rank, Origin> origins_;
};

}  // namespace longhaul::sync::sfb
