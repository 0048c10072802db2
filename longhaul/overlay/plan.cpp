#include "longhaul/overlay/plan.h"

#include <algorithm>

#include "longhaul/base/check.h"

namespace longhaul::overlay {

std::optional<std::uint32_t> GroupMembers::index_of(Rank rank) const {
  const auto it = std::lower_bound(members.begin(), members.end(), rank);
  if (it == members.end() || *it != rank) return std::nullopt;
  return std::uint32_t(it - members.begin());
}

std::uint32_t GroupMembers::nodes() const {
  return std::uint32_t(members.size()) + (server && !index_of(*server) ? 1 : 0);
}

Rank GroupMembers::node(std::uint32_t place) const {
  return place < members.size() ? members[place] : server.value();
}

std::optional<std::uint32_t> GroupMembers::place_of(Rank rank) const {
  if (const auto index = index_of(rank)) return index;
  if (server == rank) return std::uint32_t(members.size());
  return std::nullopt;
}

std::vector<Rank> GroupMembers::others() const {
  std::vector<Rank> ranks;
  const auto after = std::upper_bound(members.begin(), members.end(), self);
  ranks.insert(ranks.end(), after, members.end());
  ranks.insert(ranks.end(), members.begin(), after);
  std::erase(ranks, self);
  return ranks;
}

std::uint32_t GroupMembers::shards() const {
  if (founders == 0) return std::uint32_t(workers.size());
  return std::uint32_t(std::lower_bound(workers.begin(), workers.end(), founders) -
                       workers.begin());
}

Plan::Plan(const Partition& grid, const GroupMembers& team) : grid_(&grid) {
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

Plan::Plan(const Partition& grid, const GroupMembers& team, const Forest& forest) : grid_(&grid) {
  const Status good =
      check_forest(forest, std::uint32_t(team.members.size()), team.nodes(), grid.pieces());
  LH_CHECK(!team.members.empty() && good);
  std::vector<Rank> by_piece;
  for (const std::uint32_t tree : forest.tree_of)
    by_piece.push_back(team.node(forest.trees[tree].root));
  deal(std::move(by_piece));
  // Whoever stands outside (a server of another kind) has no use for the trees.
  if (const auto place = team.place_of(team.self)) tree_set_.emplace(forest, *place);
}

void Plan::deal(std::vector<Rank> by_piece) {
  owners_ = by_piece;
  std::sort(owners_.begin(), owners_.end());
  owners_.erase(std::unique(owners_.begin(), owners_.end()), owners_.end());
  owned_.resize(owners_.size());
  for (std::size_t piece = 0; piece < by_piece.size(); ++piece) {
    const auto it = std::lower_bound(owners_.begin(), owners_.end(), by_piece[piece]);
    slot_.push_back(std::uint32_t(it - owners_.begin()));
    owned_[slot_.back()].push_back(std::uint32_t(piece));
  }
}

std::span<const std::uint32_t> Plan::pieces_of(Rank rank) const {
  const auto it = std::lower_bound(owners_.begin(), owners_.end(), rank);
  if (it == owners_.end() || *it != rank) return {};
  return owned_[std::size_t(it - owners_.begin())];
}

std::vector<Range> Plan::ranges(std::span<const std::uint32_t> pieces) const {
  std::vector<Range> ranges;
  ranges.reserve(pieces.size());
  for (const std::uint32_t piece : pieces) ranges.push_back(grid_->range(piece));
  return ranges;
}

}  // namespace longhaul::overlay
