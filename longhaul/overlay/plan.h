#pragma once
// The members of the attempts of one epoch, the owner of each piece, and the paths of its parts.
#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "longhaul/base/check.h"
#include "longhaul/core/place.h"
#include "longhaul/core/types.h"
#include "longhaul/overlay/tree.h"

namespace longhaul::overlay {

// The cut of a vector, the same on all nodes for the whole job. There is a shard of equal length
// for each worker at the beginning of the job (a hub: one), cut into pieces of at most a chunk.
// Members come and go; the cut stays, so that a repeat after a loss sends the same bytes. Only the
// owners of pieces change (Plan).
class Partition {
 public:
  Partition() = default;
  // `length` values, at most `longest` of them in a piece. Shard s is [s d/n, (s+1) d/n), rounded
  // down; it is empty where there are fewer values than shards.
  Partition(std::uint64_t length, std::uint32_t shards, std::uint64_t longest)
      : length_(length), shards_(shards), longest_(longest) {
    LH_CHECK(shards > 0 && longest > 0 && length < (std::uint64_t{1} << 41));
    first_.push_back(0);
    for (std::uint64_t s = 0; s < shards_; ++s)
      first_.push_back(first_.back() + (start(s + 1) - start(s) + longest_ - 1) / longest_);
  }

  std::uint64_t length() const { return length_; }
  std::size_t pieces() const { return first_.empty() ? 0 : first_.back(); }
  std::uint32_t shard_of(std::size_t piece) const {
    LH_CHECK(piece < pieces());
    const auto behind = std::ranges::upper_bound(first_, piece);
    return std::uint32_t(behind - first_.begin() - 1);
  }

  Range range(std::size_t piece) const {
    const std::uint32_t shard = shard_of(piece);
    const std::uint64_t offset = start(shard) + (piece - first_[shard]) * longest_;
    return {offset, std::min(longest_, start(shard + 1) - offset)};
  }

  // Returns the piece with exactly this range, if there is one.
  std::optional<std::size_t> find(Range range) const {
    if (range.offset >= length_) return std::nullopt;
    // start(s) is rounded down: the guess may be one too low.
    std::uint64_t shard = range.offset * shards_ / length_;
    while (start(shard + 1) <= range.offset) ++shard;
    const std::size_t piece = first_[shard] + (range.offset - start(shard)) / longest_;
    if (this->range(piece) != range) return std::nullopt;
    return piece;
  }

 private:
  std::uint64_t start(std::uint64_t shard) const { return shard * length_ / shards_; }

  std::uint64_t length_ = 0;
  std::uint64_t shards_ = 1;
  std::uint64_t longest_ = 1;
  std::vector<std::size_t> first_;  // first piece of each shard, and the number of pieces
};

struct GroupMembers {
  Rank self = 0;
  Epoch epoch = 0;
  RankList workers;            // workers of the group, live or lost
  RankList members;            // live workers
  std::optional<Rank> server;  // server of a hub: owns every piece; need not be a member
  // `workers` in the form of messages.h; empty: all workers of the job.
  std::vector<std::uint8_t> name = {};
  std::uint32_t founders = 0;  // as in View, for the group of all workers; 0: its workers are fixed
  // Returns the number of shards of a vector: one for each worker at the beginning of the run.
  std::uint32_t shards() const {
    if (founders == 0) return std::uint32_t(workers.size());
    return std::uint32_t(std::ranges::lower_bound(workers, founders) - workers.begin());
  }

  // Returns the place in members.
  std::optional<std::uint32_t> index_of(Rank rank) const {
    const auto it = std::ranges::lower_bound(members, rank);
    if (it == members.end() || *it != rank) return std::nullopt;
    return std::uint32_t(it - members.begin());
  }

  bool takes_part() const { return index_of(self).has_value(); }
  // Returns the number of places in trees (tree.h): the members, and behind them a server that is
  // none.
  std::uint32_t nodes() const {
    return std::uint32_t(members.size()) + (server && !index_of(*server) ? 1 : 0);
  }

  Rank node(std::uint32_t place) const {
    return place < members.size() ? members[place] : server.value();
  }

  std::optional<std::uint32_t> place_of(Rank rank) const {
    if (const auto index = index_of(rank)) return index;
    if (server == rank) return std::uint32_t(members.size());
    return std::nullopt;
  }

  // Returns the others, from the one after this node: if all do so, traffic spreads over the
  // receivers.
  std::vector<Rank> others() const {
    std::vector<Rank> ranks;
    const auto after = std::ranges::upper_bound(members, self);
    ranks.insert(ranks.end(), after, members.end());
    ranks.insert(ranks.end(), members.begin(), after);
    std::erase(ranks, self);
    return ranks;
  }

  void state(auto& ar) { ar(epoch, members, server); }
};

class Plan {
 public:
  // Shard s belongs to worker s; a lost worker's pieces are assigned to the members in turn.
  Plan(const Partition& grid, const GroupMembers& team) : grid_(&grid) {
    LH_CHECK(!team.members.empty());
    const auto owner = [&](std::size_t piece) {
      if (team.server) return *team.server;
      const Rank home = team.workers.at(grid.shard_of(piece));
      return team.index_of(home) ? home : team.members[piece % team.members.size()];
    };
    std::vector<Rank> by_piece(grid.pieces());
    for (std::size_t piece = 0; piece < by_piece.size(); ++piece) by_piece[piece] = owner(piece);
    deal(std::move(by_piece));
  }

  // A piece belongs to the root of its tree. CHECKs that the forest fits this team.
  Plan(const Partition& grid, const GroupMembers& team, const Forest& forest) : grid_(&grid) {
    const Status good =
        check_forest(forest, std::uint32_t(team.members.size()), team.nodes(), grid.pieces());
    LH_CHECK(!team.members.empty() && good);
    std::vector<Rank> by_piece;
    for (const std::uint32_t tree : forest.tree_of)
      by_piece.push_back(team.node(forest.trees[tree].root));
    deal(std::move(by_piece));
    // A node outside (a server of another kind) needs no trees.
    if (const auto place = team.place_of(team.self)) tree_set_.emplace(forest, *place);
  }

  const Partition& grid() const { return *grid_; }
  Rank owner(std::size_t piece) const { return owners_[slot_[piece]]; }
  // Returns the node that knows all weights: the owner of the first piece.
  Rank root() const { return owner(0); }
  std::span<const Rank> owners() const { return owners_; }  // owners of pieces, ascending
  // Returns the pieces of `rank`, ascending.
  std::span<const std::uint32_t> pieces_of(Rank rank) const {
    const auto it = std::ranges::lower_bound(owners_, rank);
    if (it == owners_.end() || *it != rank) return {};
    return owned_[std::size_t(it - owners_.begin())];
  }

  std::vector<Range> ranges(std::span<const std::uint32_t> pieces) const {
    std::vector<Range> ranges;
    ranges.reserve(pieces.size());
    for (const std::uint32_t piece : pieces) ranges.push_back(grid_->range(piece));
    return ranges;
  }

  // Returns this node's view of the trees; only if the pieces go along trees.
  const TreeSet& tree_set() const { return tree_set_.value(); }

 private:
  void deal(std::vector<Rank> by_piece) {
    owners_ = by_piece;
    std::ranges::sort(owners_);
    owners_.erase(std::unique(owners_.begin(), owners_.end()), owners_.end());
    owned_.resize(owners_.size());
    for (std::size_t piece = 0; piece < by_piece.size(); ++piece) {
      const auto it = std::ranges::lower_bound(owners_, by_piece[piece]);
      slot_.push_back(std::uint32_t(it - owners_.begin()));
      owned_[slot_.back()].push_back(std::uint32_t(piece));
    }
  }

  const Partition* grid_;
  std::vector<Rank> owners_;
  std::vector<std::uint32_t> slot_;                // by piece, index in owners_
  std::vector<std::vector<std::uint32_t>> owned_;  // by slot
  std::optional<TreeSet> tree_set_;
};

}  // namespace longhaul::overlay
