#pragma once
// Jobs of several sites with several nodes each, and the teams that live of them, for tests of
// trees between sites.
#include <algorithm>
#include <optional>
#include <string>

#include "longhaul/core/place.h"
#include "longhaul/overlay/plan.h"

namespace longhaul::overlay::testing {

//      2            2
//     / \           |
//    0   4          4
//   / \             |
//  1   3            3 - 0 - 1      up on the left, down on the right
inline Tree tree_of_five() { return {2, {2, 0, 2, 0, 2}, {3, 0, 2, 4, 2}}; }

// Site i is "s<i>"; `nodes` workers at each. With a server: one more node, the last, at that site.
inline Place place_of(std::uint32_t sites, std::uint32_t nodes, Rank self = 0,
                      std::optional<std::uint32_t> server_site = {}) {
  Members members;
  for (std::uint32_t i = 0; i < sites; ++i)
    for (std::uint32_t k = 0; k < nodes; ++k)
      members.push_back({.site = "s" + std::to_string(i), .rank_in_site = k});
  if (server_site)
    members.push_back({.site = "s" + std::to_string(*server_site),
                       .rank_in_site = nodes,
                       .roles = std::uint8_t(Role::server)});
  Place place{.self = self, .members = std::make_shared<const Members>(std::move(members))};
  return place;
}

// Of `size` workers, those who live.
inline GroupMembers team_of(std::uint32_t size, const std::vector<Rank>& lost = {}, Rank self = 0) {
  GroupMembers team;
  team.self = self;
  for (Rank rank = 0; rank < size; ++rank) {
    team.workers.insert(rank);
    if (std::find(lost.begin(), lost.end(), rank) == lost.end()) team.members.insert(rank);
  }
  return team;
}

}  // namespace longhaul::overlay::testing
