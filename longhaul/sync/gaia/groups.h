#pragma once
// Groups of sites for the overlays with hubs, and which site of a group speaks for it. Computed
// from what the job says, equally at all nodes.
//   The groups of Gaia's 11 regions, their hubs and the three pairs of sites that join them are
//   those of the released code (github.com/kevinhsieh/non_iid_dml). Other groups are ours.
#include <functional>
#include <map>

#include "longhaul/sync/gaia/config.h"

namespace longhaul::sync::gaia {

// Seconds, one way. Null: equal for all pairs.
using DelayBelief = std::function<double(Rank from, Rank to)>;

struct Groups {
  std::vector<std::vector<Rank>> members;  // of each group, its hub first; together all workers
  // By (a, b), a < b: the nodes of group a and of group b that join them.
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::pair<Rank, Rank>> peers;
};

// By `groups` and `peers` of the config; else, where the job's sites are Gaia's 11, as published;
// else by delay: as many groups as the square root of the number of sites, each as narrow as
// joining the two nearest groups again and again makes them; the hub of a group is the nearest to
// all, and two groups are joined by their nearest sites of those with the fewest such duties.
Groups make_groups(const Config&, const DelayBelief&, const Place&);

// Without the lost: a hub is replaced by the next member of its group, and so is one of `peers`.
// Groups of which nobody is left are gone.
Groups without_lost(const Groups&, const std::vector<Rank>& live);

// An Error: a group names a site that is not there, or one twice, or sites are left over; or a peer
// is in no other group than its partner.
Status check_groups(const Config&, const Place&);

}  // namespace longhaul::sync::gaia
