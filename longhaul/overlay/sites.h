#pragma once
// Trees between sites, and the trees between nodes that are made of them. In each tree one member
// of a site leads: it alone speaks with other sites, and the site's others stand right below it.
// Where a server is that is no member, it speaks for the site, and the leader stands below it.
#include <cstdint>
#include <optional>
#include <vector>

#include "longhaul/core/place.h"
#include "longhaul/flow/wan.h"
#include "longhaul/overlay/plan.h"

namespace longhaul::overlay {

// The number of each node's site, by rank: sites are numbered as they first appear.
std::vector<std::uint32_t> number_sites(const Place&);

// The members of a team by site, in the order in which the sites first appear.
struct SiteGroups {
  struct Server {  // that is no member
    std::uint32_t place = 0, site = 0;
  };
  std::vector<std::uint32_t> sites;                // their numbers
  std::vector<std::vector<std::uint32_t>> places;  // in trees (tree.h), ascending
  std::optional<Server> server;                    // alone at its site: the last, without places
  std::uint32_t size() const { return std::uint32_t(sites.size()); }
  std::uint32_t largest() const;  // members at the site that has most
  std::optional<std::uint32_t> index_of(std::uint32_t site) const;
};
// `site_of`: the numbers of sites, by rank.
SiteGroups group_by_site(const GroupMembers&, const std::vector<std::uint32_t>& site_of);

struct SiteTree {
  Tree tree;         // between sites, by their index in SiteGroups; its root: a server's site
  double share = 1;  // of the vector; those of one vector add up to 1
  void state(auto& ar) { ar(tree, share); }
};

struct SitePlan {
  std::vector<SiteTree> trees;
  double lag = 1;  // Forest::lag as a share of the vector; 1: absent
  void state(auto& ar) { ar(trees, lag); }
};

// Planned by what is believed of the network, in which the groups' sites have their numbers; null:
// all sites are alike.
SitePlan plan_trees(const SiteGroups&, const flow::Wan* network, const Partition&);
// By the network between the groups' sites alone, in their order. `circle`: one circle will do, as
// flow::ForestTask has it; who learns rates needs all pairs measured.
SitePlan plan_between(const flow::Wan&, const Partition&, bool circle);

// Each tree `turns` times, every time with an equal part of its share: tree t is led, the k-th
// time, by the (t + k)-th of a site's members, round about.
Forest over_sites(const std::vector<SiteTree>&, const SiteGroups&, std::uint32_t turns,
                  std::size_t pieces);
Forest over_sites(const SitePlan&, const SiteGroups&, std::size_t pieces);  // one turn

// The tree of each piece: by `shares`, which add up to 1, and so that every stretch of the vector
// has pieces of all of them.
std::vector<std::uint32_t> deal_pieces(std::size_t pieces, const std::vector<double>& shares);

// How many values a piece has at most where a vector is to be cut into `pieces`, or more: no less
// than kShortestPiece, no more than a chunk, as the place counts them on the wire.
inline constexpr std::uint64_t kShortestPiece = 4096;  // its header is 0.6 % of it
std::uint64_t piece_length(std::uint64_t length, std::uint64_t pieces, std::uint64_t chunk,
                           std::uint64_t shortest = kShortestPiece);

}  // namespace longhaul::overlay
