#include "longhaul/overlay/forest.h"

#include <algorithm>
#include <map>

#include "longhaul/base/check.h"
#include "longhaul/flow/bound.h"

namespace longhaul::overlay {
namespace {

constexpr std::uint64_t kShortest = 4096;  // values of a piece: its header is 0.6 % of it

// Members by site, in the order in which sites first appear.
struct Crew {
  std::vector<std::string> sites;
  std::vector<std::vector<std::uint32_t>> places;
};

Crew crew_of(const Team& team, const Place& place) {
  Crew crew;
  for (std::uint32_t i = 0; i < team.members.size(); ++i) {
    const std::string& name = place.member(team.members[i]).site;
    const auto site =
        std::size_t(std::find(crew.sites.begin(), crew.sites.end(), name) - crew.sites.begin());
    if (site == crew.sites.size()) {
      crew.sites.push_back(name);
      crew.places.emplace_back();
    }
    crew.places[site].push_back(i);
  }
  return crew;
}

// The network between these sites alone.
flow::Wan network_of(const Crew& crew, const flow::Wan* whole) {
  if (!whole) {
    flow::Wan alike;
    for (const std::string& name : crew.sites)
      alike.sites.push_back({.name = name, .up = 1e6, .down = 1e6, .lan = {}});
    return alike;
  }
  std::vector<std::uint32_t> chosen;
  for (const std::string& name : crew.sites) {
    const auto site = std::find_if(whole->sites.begin(), whole->sites.end(),
                                   [&](const auto& one) { return one.name == name; });
    LH_CHECK(site != whole->sites.end());
    chosen.push_back(std::uint32_t(site - whole->sites.begin()));
  }
  return flow::among(*whole, chosen);
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
                             Place place)
    : config_(config), network_(std::move(network)), place_(std::move(place)) {}

std::uint64_t PlannedForest::longest(std::uint64_t length, std::uint64_t chunk) const {
  const std::uint64_t wanted = (length + config_.pieces - 1) / config_.pieces;
  return std::min(chunk, std::max(wanted, kShortest));
}

std::optional<Forest> PlannedForest::forest(const Grid& grid, const Team& team) const {
  const Crew crew = crew_of(team, place_);
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
