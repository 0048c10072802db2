#include "longhaul/overlay/forest.h"

#include "longhaul/overlay/belief.h"

namespace longhaul::overlay {

PlannedForest::PlannedForest(const ForestConfig& config, std::shared_ptr<const flow::Wan> network,
                             const Place& place)
    : config_(config),
      network_(std::move(network)),
      site_of_(network_ ? sites_of(*network_, place) : number_sites(place)) {}

// A site's members take turns, from tree to tree, at being the one who speaks with other sites.
std::optional<Forest> PlannedForest::forest(const Grid& grid, const Team& team) const {
  const SiteGroups groups = group_by_site(team, site_of_);
  return over_sites(plan_trees(groups, network_.get(), grid), groups, 1, grid.pieces());
}

}  // namespace longhaul::overlay
