#include "longhaul/overlay/forest.h"

#include <algorithm>
#include <map>
#include <string_view>

#include "longhaul/flow/bound.h"
#include "longhaul/flow/capacities.h"
#include "longhaul/overlay/belief.h"

namespace longhaul::overlay {
namespace {

constexpr std::uint64_t kShortest = 4096;  // values of a piece: its header is 0.6 % of it

// Members by site, in the order in which sites first appear.
struct Crew {
  std::vector<std::uint32_t> sites;
  std::vector<std::vector<std::uint32_t>> places;
};

Crew crew_of(const Team& team, const std::vector<std::uint32_t>& site_of) {
  Crew crew;
  std::map<std::uint32_t, std::size_t> numbers;
  for (std::uint32_t i = 0; i < team.members.size(); ++i) {
    const std::uint32_t site = site_of[team.members[i]];
    const auto [number, is_new] = numbers.try_emplace(site, crew.sites.size());
    if (is_new) {
      crew.sites.push_back(site);
      crew.places.emplace_back();
    }
    crew.places[number->second].push_back(i);
  }
  return crew;
}

// Sites numbered as they first appear.
std::vector<std::uint32_t> numbered(const Place& place) {
  std::map<std::string_view, std::uint32_t> numbers;
  std::vector<std::uint32_t> sites;
  for (const Member& member : *place.members)
    sites.push_back(numbers.try_emplace(member.site, numbers.size()).first->second);
  return sites;
}

// The network between these sites alone.
flow::Wan network_of(const Crew& crew, const flow::Wan* whole) {
  if (whole) return flow::among(*whole, crew.sites);
  flow::Wan alike;
  for (std::size_t i = 0; i < crew.sites.size(); ++i)
    alike.sites.push_back({.name = {}, .up = 1e6, .down = 1e6, .lan = {}});
  return alike;
}

// A site's members take turns, from tree to tree, at being the one who speaks with other sites.
Tree tree_of(const flow::TwoTrees& planned, const Crew& crew, std::size_t turn,
             std::size_t members) {
  const auto speaker = [&](std::uint32_t site) {
    return crew.places[site][turn % crew.places[site].size()];
  };
  Tree tree{.root = speaker(planned.root),
            .reduce_to = std::vector<std::uint32_t>(members),
            .spread_from = std::vector<std::uint32_t>(members)};
  for (std::uint32_t site = 0; site < crew.sites.size(); ++site) {
    for (const std::uint32_t place : crew.places[site])
      tree.reduce_to[place] = tree.spread_from[place] = speaker(site);
    tree.reduce_to[speaker(site)] = speaker(planned.reduce_to[site]);
    tree.spread_from[speaker(site)] = speaker(planned.spread_from[site]);
  }
  return tree;
}

}  // namespace

std::vector<std::uint32_t> deal_pieces(std::size_t pieces, const std::vector<double>& shares) {
  std::vector<std::uint32_t> tree_of;
  std::vector<double> owed(shares.size());
  for (std::size_t piece = 0; piece < pieces; ++piece) {
    for (std::size_t tree = 0; tree < owed.size(); ++tree) owed[tree] += shares[tree];
    const auto most = std::max_element(owed.begin(), owed.end());
    *most -= 1;
    tree_of.push_back(std::uint32_t(most - owed.begin()));
  }
  return tree_of;
}

PlannedForest::PlannedForest(const ForestConfig& config, std::shared_ptr<const flow::Wan> network,
                             const Place& place)
    : config_(config),
      network_(std::move(network)),
      site_of_(network_ ? sites_of(*network_, place) : numbered(place)) {}

std::uint64_t PlannedForest::longest(std::uint64_t length, std::uint64_t chunk) const {
  const std::uint64_t wanted = (length + config_.pieces - 1) / config_.pieces;
  return std::min(chunk, std::max(wanted, kShortest));
}

std::optional<Forest> PlannedForest::forest(const Grid& grid, const Team& team) const {
  const Crew crew = crew_of(team, site_of_);
  const double value = sizeof(float) * flow::kIpPerByte;
  const flow::ForestPlan plan =
      plan_forest(network_of(crew, network_.get()),
                  {double(grid.length()) * value, double(grid.range(0).length) * value});
  Forest forest;
  std::vector<double> shares;
  for (const flow::TwoTrees& planned : plan.trees) {
    forest.trees.push_back(tree_of(planned, crew, forest.trees.size(), team.members.size()));
    shares.push_back(planned.share);
  }
  forest.tree_of = deal_pieces(grid.pieces(), shares);
  return forest;
}

}  // namespace longhaul::overlay
