#include "longhaul/overlay/hierarchical.h"

#include <algorithm>

#include "longhaul/base/check.h"
#include "longhaul/overlay/belief.h"
#include "longhaul/overlay/binary.h"
#include "longhaul/overlay/rack.h"

namespace longhaul::overlay {
namespace {

using Places = std::vector<std::uint32_t>;

bool has_root(std::string_view between) {
  return between == "hub" || between == "rack" || between == "binary";
}

Tree star_tree(std::uint32_t sites, std::uint32_t root) {
  return {.root = root, .reduce_to = Places(sites, root), .spread_from = Places(sites, root)};
}

// From the site behind the owner round to it, and from it round to the one before it.
Tree circle_tree(std::uint32_t sites, std::uint32_t owner) {
  Tree tree = star_tree(sites, owner);
  for (std::uint32_t site = 0; site < sites; ++site) {
    if (site == owner) continue;
    tree.reduce_to[site] = (site + 1) % sites;
    tree.spread_from[site] = (site + sites - 1) % sites;
  }
  return tree;
}

}  // namespace

std::vector<SiteTree> trees_between(std::string_view overlay, const SiteGroups& groups,
                                    std::uint32_t root) {
  const std::uint32_t sites = groups.size();
  if (overlay == "hub") return {{star_tree(sites, root)}};
  // A server without workers beside it is the last site, and in none of the groups.
  const bool apart = groups.places[root].empty();
  if (overlay == "rack") return {{rack_tree(sites - (apart ? 1 : 0), 0, root)}};
  if (overlay == "binary") {
    Places order = {root};
    for (std::uint32_t site = 0; site < sites; ++site)
      if (site != root) order.push_back(site);
    return {{binary_tree(order)}};
  }
  LH_CHECK(overlay == "ring");
  std::vector<SiteTree> trees;
  for (std::uint32_t owner = 0; owner < sites; ++owner)
    trees.push_back({circle_tree(sites, owner), 1.0 / sites});
  return trees;
}

Hierarchical::Hierarchical(const HierarchicalConfig& config, std::optional<Rank> server,
                           std::shared_ptr<const flow::Wan> network, const Place& place)
    : config_(config),
      server_(has_root(config.between) ? server : std::nullopt),
      network_(config.between == "forest" ? std::move(network) : nullptr),
      site_of_(network_ ? sites_of(*network_, place) : number_sites(place)) {}

std::optional<Forest> Hierarchical::forest(const Partition& grid, const GroupMembers& team) const {
  const SiteGroups groups = group_by_site(team, site_of_);
  const std::uint32_t root = team.server ? groups.index_of(site_of_[*team.server]).value() : 0;
  const auto trees = config_.between == "forest" ? plan_trees(groups, network_.get(), grid).trees
                                                 : trees_between(config_.between, groups, root);
  return over_sites(trees, groups, groups.largest(), grid.pieces());
}

}  // namespace longhaul::overlay
