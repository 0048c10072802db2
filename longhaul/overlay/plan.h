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

// Returns stars of all members, or of the server alone. Shard s belongs to worker s; a lost
// worker's pieces are assigned to the members in turn.
inline ReducePlan stars(const Partition& grid, const GroupMembers& team,
                        const ReducePlan::How& how = {.sums = Sums::by_rank}) {
  LH_CHECK(!team.members.empty());
  ReducePlan plan{.trees = {}, .tree_of = {}, .how = how};
  const auto members = std::uint32_t(team.members.size());
  if (team.server) plan.trees = {{team.place_of(*team.server).value(), {}, {}}};
  for (std::uint32_t i = 0; i < members && !team.server; ++i) plan.trees.push_back({i, {}, {}});
  for (std::uint32_t piece = 0; piece < grid.pieces(); ++piece)
    plan.tree_of.push_back(
        team.server
            ? 0
            : team.index_of(team.workers.at(grid.shard_of(piece))).value_or(piece % members));
  return plan;
}

// A ReducePlan as one node uses it. A piece belongs to the root of its tree.
class Plan {
 public:
  Plan(const Partition& grid, const GroupMembers& team) : Plan(grid, team, stars(grid, team)) {}
  // CHECKs that the plan fits this team, of in_turn only its size: it is never a peer's, and its
  // trees together are as large as the number of pairs of nodes.
  Plan(const Partition& grid, const GroupMembers& team, const ReducePlan& plan)
      : grid_(&grid), how_(plan.how) {
    const bool good = plan.how.sums == Sums::in_turn
                          ? plan.tree_of.size() == grid.pieces()
                          : bool(check_plan(plan, std::uint32_t(team.members.size()), team.nodes(),
                                            grid.pieces()));
    LH_CHECK(!team.members.empty() && good);
    for (const std::uint32_t tree : plan.tree_of)
      owner_.push_back(team.node(plan.trees[tree].root));
    // A node outside (a server of another kind) needs no trees.
    if (const auto place = team.place_of(team.self)) tree_set_.emplace(plan, *place, team.nodes());
  }

  const Partition& grid() const { return *grid_; }
  Rank owner(std::size_t piece) const { return owner_[piece]; }
  // Returns the node that knows all weights: the owner of the first piece.
  Rank root() const { return owner(0); }
  // Returns the pieces of `rank`, ascending.
  std::vector<std::uint32_t> pieces_of(Rank rank) const {
    std::vector<std::uint32_t> pieces;
    for (std::uint32_t piece = 0; piece < owner_.size(); ++piece)
      if (owner_[piece] == rank) pieces.push_back(piece);
    return pieces;
  }

  std::vector<Range> ranges(std::span<const std::uint32_t> pieces) const {
    std::vector<Range> ranges;
    ranges.reserve(pieces.size());
    for (const std::uint32_t piece : pieces) ranges.push_back(grid_->range(piece));
    return ranges;
  }

  // Returns this node's view of the trees; only if it has a place in them.
  const TreeSet& tree_set() const { return tree_set_.value(); }
  const ReducePlan::How& how() const { return how_; }

 private:
  const Partition* grid_;
  ReducePlan::How how_;
  std::vector<Rank> owner_;  // by piece
  std::optional<TreeSet> tree_set_;
};

}  // namespace longhaul::overlay
