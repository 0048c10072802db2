#pragma once
// FactorStore holds what has come of each origin, clock by clock: each part once. What is done is
// kept for those who may lack it if its origin is lost. Ours.
#include <map>

#include "longhaul/core/vector_content.h"
#include "longhaul/sync/sfb/headers.h"

namespace longhaul::sync::sfb {

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
  // How many clocks of the origin, from the first on, are here in full.
  Round done(Rank origin) const;
  // The parts of a clock that is done; it has not been dropped.
  const Pieces& pieces(Rank origin, Round clock) const;
  // Of the clock, or null if it has been dropped or has not come.
  const Pieces* find(Rank origin, Round clock) const;
  void drop_before(Round clock);
  // What is not done of this origin, who is lost, will never be.
  void drop_unfinished(Rank origin);
  void state(Archive& ar) { ar(origins_); }

 private:
  struct Origin {
    Round done = 0;
    std::map<Round, Pieces> clocks;
    void state(Archive& ar) { ar(done, clocks); }
  };

  const std::uint32_t parts_;
  std::map<Rank, Origin> origins_;
};

}  // namespace longhaul::sync::sfb
