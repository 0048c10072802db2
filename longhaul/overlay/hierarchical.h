#pragma once
// Reduction inside each site over its LAN first, then between the sites, one node leading each; and
// back. docs/overlay/hierarchical.md
#include <algorithm>
#include <memory>

#include "longhaul/overlay/belief.h"
#include "longhaul/overlay/fixed_plans.h"
#include "longhaul/overlay/sites.h"

namespace longhaul::overlay {

inline bool has_root(std::string_view between) {
  return between == "hub" || between == "rack" || between == "binary";
}

// Returns the trees between sites, by the name of the overlay. hub, rack and binary have one, with
// the site `root` as its root; ring has one for each owner, which passes its part of the vector
// round.
inline std::vector<SiteTree> trees_between(std::string_view overlay, const SiteGroups& groups,
                                           std::uint32_t root) {
  const std::uint32_t sites = groups.size();
  std::vector<std::uint32_t> all(sites, root);
  if (overlay == "hub") return {SiteTree{{root, all, all}}};
  // A server without workers at its site is the last site, and in none of the groups.
  const bool apart = groups.places[root].empty();
  if (overlay == "rack") return {{rack_tree(sites - (apart ? 1 : 0), 0, root)}};
  if (overlay == "binary") {
    std::vector<std::uint32_t> order = {root};
    for (std::uint32_t site = 0; site < sites; ++site)
      if (site != root) order.push_back(site);
    return {{binary_tree(order)}};
  }
  LH_CHECK(overlay == "ring");
  std::iota(all.begin(), all.end(), 0u);
  std::vector<SiteTree> trees;
  for (std::uint32_t owner = 0; owner < sites; ++owner)
    trees.push_back({circle_tree(all, owner), 1.0 / sites});
  return trees;
}

class Hierarchical final : public Topology {
 public:
  struct Config {
    std::string phases = "streamed";
    std::string between = "hub";
    std::uint32_t pieces = 400;
    static void fields(auto& self, auto&& visit) {
      visit_phases(self, visit);
      LONGHAUL_KEY(between, "the overlay of the sites' means",
                   .choices = {"hub", "rack", "binary", "ring", "forest"});
      LONGHAUL_KEY(pieces,
                   "into which a vector is cut, or more; none shorter than 4,096 values or longer "
                   "than a chunk. A site's nodes lead it for a piece each in turn",
                   .min = 1, .max = 1 << 20);
    }
  };

  // The site of [roles] server is the root of hub, rack and binary, or while that is absent or lost
  // the site of the lowest live worker. The network is used as by forest.
  Hierarchical(const Config& config, const OverlayParts& parts, const Place& place)
      : config_(config),
        server_(has_root(config.between) ? parts.server : std::nullopt),
        network_(config.between == "forest" ? parts.network : nullptr),
        site_of_(network_ ? sites_of(*network_, place) : number_sites(place)),
        shortest_piece_(place.standing_for(kShortestPiece)) {}

  Partition cut(std::uint64_t length, std::uint32_t, std::uint64_t chunk) const override {
    return {length, 1, piece_length(length, config_.pieces, chunk, shortest_piece_)};
  }
  std::optional<Rank> server(const std::vector<Rank>&, const View& view) const override {
    return server_ && view.has(*server_) ? server_ : std::nullopt;
  }
  std::optional<ReducePlan> plan(const Partition& grid, const GroupMembers& team) const override {
    const SiteGroups groups = group_by_site(team, site_of_);
    const std::uint32_t root = team.server ? groups.index_of(site_of_[*team.server]).value() : 0;
    const auto trees = config_.between == "forest" ? plan_trees(groups, network_.get(), grid).trees
                                                   : trees_between(config_.between, groups, root);
    ReducePlan plan = over_sites(trees, groups, groups.largest(), grid.pieces());
    plan.how.streamed = config_.phases == "streamed";
    return plan;
  }

 private:
  const Config config_;
  const std::optional<Rank> server_;  // only for hub, rack and binary
  const std::shared_ptr<const flow::Wan> network_;
  const std::vector<std::uint32_t> site_of_;  // by rank
  const std::uint64_t shortest_piece_;
};

}  // namespace longhaul::overlay
