#pragma once
// The settings min_sites (least number of sites of a run), min_clients (least number of workers in
// a mean) and late (use of an update that misses its round).
#include <algorithm>
#include <set>
#include <string>

#include "longhaul/base/decimal.h"
#include "longhaul/base/fields.h"
#include "longhaul/base/result.h"
#include "longhaul/core/place.h"

namespace longhaul::sync {

void visit_min_sites(auto&& visit, auto& min_sites) {
  visit(Field{.name = "min_sites", .doc = "sites that must be left, else the run ends", .min = 1},
        min_sites);
}

void visit_late(auto&& visit, auto& late, auto& min_clients) {
  visit(
      Field{.name = "late",
            .doc = "an update that misses the deadline of its round: fold: it is given in a later "
                   "round, once; drop: it is discarded",
            .choices = {"fold", "drop"}},
      late);
  visit(
      Field{.name = "min_clients",
            .doc = "minimum number of contributions to a mean; below it the mean is discarded, and "
                   "the same contributions are sent in the next round",
            .min = 1},
      min_clients);
}

// An Error if the job has fewer sites with workers than `min_sites`.
inline Status check_min_sites(std::uint32_t min_sites, const Place& place) {
  std::set<std::string> sites;
  for (const Member& member : *place.members) {
    if (sites.size() >= min_sites) return Ok{};
    if (member.is(Role::worker)) sites.insert(member.site);
  }
  if (min_sites <= sites.size()) return Ok{};
  return invalid("[sync] min_sites = " + std::to_string(min_sites) + ", but the job has " +
                 std::to_string(sites.size()) + " sites with workers: lower it");
}

// An Error if the view has workers at fewer sites, with the names of the sites that are lost.
inline Status enough_sites(std::uint32_t min_sites, const Place& place, const View& view) {
  std::set<std::string> all, left;
  for (Rank rank = 0; rank < place.size(); ++rank) {
    if (!place.member(rank).is(Role::worker)) continue;
    all.insert(place.member(rank).site);
    if (view.has(rank)) left.insert(place.member(rank).site);
  }
  if (left.size() >= min_sites) return Ok{};
  std::string names;
  for (const std::string& site : all)
    if (!left.contains(site)) names += (names.empty() ? "" : ", ") + site;
  return unavailable(std::to_string(left.size()) + " of " + std::to_string(all.size()) +
                     " sites are left, [sync] min_sites is " + std::to_string(min_sites) +
                     "; lost: " + names + ". Bring them back and resume, or lower min_sites");
}

// Returns an Error if `min_clients` exceeds the number of workers that compute in a round, which is
// a `share` of all workers.
inline Status check_min_clients(std::uint32_t min_clients, const Place& place, double share = 1) {
  const auto workers = place.members.with(Role::worker).size();  // known; every node asks
  const auto drawn = std::uint64_t(std::max(1.0, whole_nearest(share * double(workers))));
  if (min_clients <= drawn) return Ok{};
  return invalid("[sync] min_clients = " + std::to_string(min_clients) + ", but " +
                 std::to_string(drawn) + " workers compute in a round: lower it");
}

}  // namespace longhaul::sync
