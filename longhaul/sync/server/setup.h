#pragma once
// Setup is the data from which the worker and the server of a strategy are made.
#include <optional>
#include <string_view>

#include "longhaul/core/stop_rule.h"
#include "longhaul/sync/flat.h"
#include "longhaul/sync/server/server_header.h"

namespace longhaul::sync::server {

struct Setup {
  std::string_view name;  // name of the strategy, for messages to the user
  Place place;
  Rank server = 0;
  std::vector<Rank> workers;  // workers at the start, ascending
  StopConfig stop;
  std::uint64_t commits = 0;         // commits in a round; 0: the number of workers
  double rate = 0;                   // [optimizer] rate; 0 if unknown
  ServerChannel* channel = nullptr;  // this node's; lives as long as worker and server

  std::uint64_t commits_a_round() const { return commits > 0 ? commits : workers.size(); }
};

// Returns the node that serves: `named` by [roles] server, else the lowest with the role, else the
// lowest that is no witness.
inline Rank server_of(std::optional<Rank> named, const Place& place) {
  if (named) return *named;
  for (Rank rank = 0; rank < place.size(); ++rank)
    if (place.member(rank).is(Role::server)) return rank;
  for (Rank rank = 0; rank < place.size(); ++rank)
    if (!place.member(rank).is(Role::witness)) return rank;
  return 0;
}

// Returns an Error if a node is no worker, server or witness: it would have nothing to do.
inline Status check_roles(std::string_view name, Rank server, const Place& place) {
  for (Rank rank = 0; rank < place.size(); ++rank) {
    const Member& member = place.member(rank);
    if (rank == server || member.is(Role::worker) || member.is(Role::witness)) continue;
    return invalid("[[site]] roles: site " + place.member(rank).site +
                   " has no worker, and with [sync] kind = \"" + std::string(name) +
                   "\" the server is at site " + place.member(server).site +
                   ": name it in [roles] server, or give it the role \"worker\"");
  }
  return Ok{};
}

}  // namespace longhaul::sync::server
