#pragma once
// Who takes part in the attempts of one epoch, who owns which piece, and which way its parts go.
#include <optional>
#include <span>
#include <vector>

#include "longhaul/core/place.h"
#include "longhaul/overlay/partition.h"
#include "longhaul/overlay/tree.h"

namespace longhaul::overlay {

struct GroupMembers {
  Rank self = 0;
  Epoch epoch = 0;
  RankList workers;            // the group's, dead or alive
  RankList members;            // those that live
  std::optional<Rank> server;  // of a hub: owns every piece; need not be a member
  // `workers` as messages carry them, in rank_bits.h; empty: all workers of the job.
  std::vector<std::uint8_t> name = {};
  std::uint32_t founders = 0;  // as in View, of the group of all workers; 0: its workers are fixed
  // That vectors are cut into: one for each worker that the run began with.
  std::uint32_t shards() const;
  // Place in members.
  std::optional<std::uint32_t> index_of(Rank) const;
  bool takes_part() const { return index_of(self).has_value(); }
  // Places in trees (tree.h): the members', and behind them that of a server that is none.
  std::uint32_t nodes() const;
  Rank node(std::uint32_t place) const;
  std::optional<std::uint32_t> place_of(Rank) const;
  // The others, beginning after oneself: if all do so, their traffic spreads over the receivers.
  std::vector<Rank> others() const;
  void state(auto& ar) { ar(epoch, members, server); }
};

class Plan {
 public:
  // Shard s belongs to worker s; a lost worker's pieces are dealt over the members in turn.
  Plan(const Partition&, const GroupMembers&);
  // A piece belongs to the root of its tree. CHECKs that the forest is one of this team.
  Plan(const Partition&, const GroupMembers&, const Forest&);

  const Partition& grid() const { return *grid_; }
  Rank owner(std::size_t piece) const { return owners_[slot_[piece]]; }
  // Has everybody's share: the owner of the first piece.
  Rank root() const { return owner(0); }
  std::span<const Rank> owners() const { return owners_; }  // of at least one piece, ascending
  std::span<const std::uint32_t> pieces_of(Rank) const;     // ascending
  std::vector<Range> ranges(std::span<const std::uint32_t> pieces) const;
  // What this node has to do with the trees; only where the pieces go along some.
  const TreeSet& tree_set() const { return tree_set_.value(); }

 private:
  void deal(std::vector<Rank> by_piece);

  const Partition* grid_;
  std::vector<Rank> owners_;
  std::vector<std::uint32_t> slot_;                // of each piece, in owners_
  std::vector<std::vector<std::uint32_t>> owned_;  // by slot
  std::optional<TreeSet> tree_set_;
};

}  // namespace longhaul::overlay
