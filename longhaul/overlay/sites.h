#pragma once
// Trees between sites, and the trees between nodes that are made of them. In each tree one member
// of a site leads: only this member exchanges with other sites, and the site's others stand right
// below it. At the site of a server that is no member, the server takes this role, and the leader
// stands below it.
#include <cstdint>
#include <optional>
#include <vector>

#include "longhaul/core/place.h"
#include "longhaul/flow/wan.h"
#include "longhaul/overlay/plan.h"

namespace longhaul::overlay {

// Returns the number of each node's site, by rank: sites are numbered as they first appear.
std::vector<std::uint32_t> number_sites(const Place&);

// The members of a team by site, in the order in which the sites first appear.
struct SiteGroups {
  struct Server {  // a server that is no member
    std::uint32_t place = 0, site = 0;
  };
  std::vector<std::uint32_t> sites;                // numbers of the sites
  std::vector<std::vector<std::uint32_t>> places;  // by site: places in trees (tree.h), ascending
  std::optional<Server> server;  // if alone at its site, that is the last one, without places
  std::uint32_t size() const { return std::uint32_t(sites.size()); }
  std::uint32_t largest() const;  // members at the largest site
  std::optional<std::uint32_t> index_of(std::uint32_t site) const;
};
// `site_of`: the numbers of sites, by rank.
SiteGroups group_by_site(const GroupMembers&, const std::vector<std::uint32_t>& site_of);

struct SiteTree {
  Tree tree;         // between sites, by their index in SiteGroups; its root is a server's site
  double share = 1;  // share of the vector; all shares add up to 1
  void state(auto& ar) { ar(tree, share); }
};

struct SitePlan {
  std::vector<SiteTree> trees;
  double lag = 1;  // ReducePlan::lag as a share of the vector; 1: absent
  void state(auto& ar) { ar(trees, lag); }
};

// Returns trees for the assumed network, in which the groups' sites have their numbers; null: all
// sites are equal.
SitePlan plan_trees(const SiteGroups&, const flow::Wan* network, const Partition&);
// Returns trees for the network between the groups' sites alone, in their order. `circle`: see
// flow::ForestTask; false with learned rates, which need measurements of all pairs.
SitePlan plan_between(const flow::Wan&, const Partition&, bool circle);

// Returns each tree `turns` times, every time with an equal part of its share. The k-th time, tree
// t is led by the (t + k)-th of a site's members, in turn.
ReducePlan over_sites(const std::vector<SiteTree>&, const SiteGroups&, std::uint32_t turns,
                      std::size_t pieces);
ReducePlan over_sites(const SitePlan&, const SiteGroups&, std::size_t pieces);  // one turn

// Returns the tree of each piece, by `shares`, which add up to 1. All trees have pieces in every
// range of the vector.
std::vector<std::uint32_t> deal_pieces(std::size_t pieces, const std::vector<double>& shares);

// Returns the most values of a piece, for a vector that is cut into `pieces` or more. The result is
// no less than kShortestPiece, and no more than a chunk, as the place counts them on the wire.
inline constexpr std::uint64_t kShortestPiece = 4096;  // the header is 0.6 % of this
std::uint64_t piece_length(std::uint64_t length, std::uint64_t pieces, std::uint64_t chunk,
                           std::uint64_t shortest = kShortestPiece);

}  // namespace longhaul::overlay
