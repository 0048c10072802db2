#pragma once
// Who takes part in the attempts of one epoch, and who owns which piece.
#include <optional>
#include <span>
#include <vector>

#include "longhaul/core/place.h"
#include "longhaul/overlay/grid.h"

namespace longhaul::overlay {

struct Team {
  Rank self = 0;
  Epoch epoch = 0;
  std::vector<Rank> workers;   // the job's, dead or alive, ascending
  std::vector<Rank> members;   // those that live
  std::optional<Rank> server;  // of a hub: owns every piece; need not be a member
  // Place in members.
  std::optional<std::uint32_t> index_of(Rank) const;
  bool takes_part() const { return index_of(self).has_value(); }
  // The others, beginning after oneself: if all do so, their traffic spreads over the receivers.
  std::vector<Rank> others() const;
  void state(auto& ar) { ar(epoch, members, server); }
};

class Plan {
 public:
  // Shard s belongs to worker s; a lost worker's pieces are dealt over the members in turn.
  Plan(const Grid&, const Team&);

  const Grid& grid() const { return *grid_; }
  Rank owner(std::size_t piece) const { return owners_[slot_[piece]]; }
  // Has everybody's share: the owner of the first piece.
  Rank root() const { return owner(0); }
  std::span<const Rank> owners() const { return owners_; }  // of at least one piece, ascending
  std::span<const std::uint32_t> pieces_of(Rank) const;     // ascending
  std::vector<Range> ranges(std::span<const std::uint32_t> pieces) const;

 private:
  const Grid* grid_;
  std::vector<Rank> owners_;
  std::vector<std::uint32_t> slot_;                // of each piece, in owners_
  std::vector<std::vector<std::uint32_t>> owned_;  // by slot
};

}  // namespace longhaul::overlay
