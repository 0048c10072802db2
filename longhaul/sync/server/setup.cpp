#include "longhaul/sync/server/setup.h"

namespace longhaul::sync::server {

Rank server_of(std::optional<Rank> named, const Place& place) {
  if (named) return *named;
  for (Rank rank = 0; rank < place.size(); ++rank)
    if (place.member(rank).is(Role::server)) return rank;
  return 0;
}

Status check_roles(std::string_view name, Rank server, const Place& place) {
  for (Rank rank = 0; rank < place.size(); ++rank) {
    if (rank == server || place.member(rank).is(Role::worker)) continue;
    return invalid("[[site]] roles: site " + place.member(rank).site +
                   " has no worker, and with [sync] kind = \"" + std::string(name) +
                   "\" the server is at site " + place.member(server).site +
                   ": name it in [roles] server, or give it the role \"worker\"");
  }
  return Ok{};
}

std::string who(std::string_view name, const Place& place) {
  return std::string(name) + ", site " + place.me().site + " (rank " + std::to_string(place.self) +
         "): ";
}

}  // namespace longhaul::sync::server
