#pragma once
// Groups of sites for the overlays with hubs, and the site that represents each group. All nodes
// compute the same groups from the job.
//   The groups of Gaia's 11 regions, their hubs and the three pairs of sites that join them are
//   those of the released code (github.com/kevinhsieh/non_iid_dml). Other groups are ours.
#include <functional>
#include <map>

#include "longhaul/sync/gaia/config.h"

namespace longhaul::sync::gaia {

// Delay in seconds, one way. Null: equal for all pairs.
using DelayBelief = std::function<double(Rank from, Rank to)>;

struct Groups {
  std::vector<std::vector<Rank>> members;  // by group, the hub first; together all workers
  // By (a, b), a < b: the nodes of group a and of group b that join the groups.
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::pair<Rank, Rank>> peers;
};

// Makes the groups in one of three ways: by `groups` and `peers` of the config; else as published,
// if the job's sites are Gaia's 11; else by delay. By delay, their number is the square root of the
// number of sites, and the two nearest groups are joined repeatedly. The hub is the site with the
// least total delay to all others. Two groups are joined by their nearest sites of those with the
// fewest such duties.
Groups make_groups(const Config&, const DelayBelief&, const Place&);

// Returns the groups without lost sites. The next live member of its group replaces a hub, or one
// of `peers`. Groups without live members are removed.
Groups without_lost(const Groups&, const std::vector<Rank>& live);

// Returns an Error if a group names an unknown site, or a site twice, or if sites are left over.
// Also if a peer is not in another group than its partner.
Status check_groups(const Config&, const Place&);

}  // namespace longhaul::sync::gaia
