#include "longhaul/sync/min_sites.h"

#include <set>

namespace longhaul::sync {

Status check_min_sites(std::uint32_t min_sites, const Place& place) {
  std::set<std::string> sites;
  for (const Member& member : *place.members) {
    if (sites.size() >= min_sites) return Ok{};
    if (member.is(Role::worker)) sites.insert(member.site);
  }
  if (min_sites <= sites.size()) return Ok{};
  return invalid("[sync] min_sites = " + std::to_string(min_sites) + ", but the job has " +
                 std::to_string(sites.size()) + " sites with workers: lower it");
}

}  // namespace longhaul::sync
