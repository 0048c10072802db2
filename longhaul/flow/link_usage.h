#pragma once
// The time that the links of a Wan need for the bytes of a plan, in any order. The plan takes at
// least the time of the busiest link. Delays are left out.
#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "longhaul/base/check.h"
#include "longhaul/flow/capacities.h"
#include "longhaul/flow/wan.h"

namespace longhaul::flow {

struct LinkUsage {
  double seconds = 0;            // time of the busiest link; 0: no used link has a rate
  std::string link;              // busiest link, the first of equals: "the uplink of tokyo"; or ""
  std::vector<double> up, down;  // seconds of each site's uplink and downlink
  // Seconds of a pair's bytes alone on the narrowest link of their path.
  std::map<SitePair, double> pairs;

  // Returns `of_seconds` as a share of the busiest link's time, from 0 to 1.
  double share_of(double of_seconds) const {
    if (of_seconds == 0) return 0;
    // A link may have rate 0.
    if (std::isinf(seconds)) return std::isinf(of_seconds) ? 1 : 0;
    return of_seconds / seconds;
  }
};

// `bytes` by ordered pair of different sites, in IP bytes. Traces count at their highest rate.
inline LinkUsage link_usage(const Wan& wan, const std::map<SitePair, double>& bytes) {
  const Capacities at(wan);
  LinkUsage busy;
  busy.up.resize(at.sites);
  busy.down.resize(at.sites);
  const auto see = [&](double seconds, const auto& name) {
    if (seconds > busy.seconds * (1 + 1e-12)) busy.seconds = seconds, busy.link = name();
  };
  for (const auto& [way, load] : bytes) {
    const auto [from, to] = way;
    LH_CHECK(from != to && from < at.sites && to < at.sites && load >= 0);
    busy.up[from] += load / at.up[from];
    busy.down[to] += load / at.down[to];
    busy.pairs[way] = load / std::min({at.up[from], at.pair(from, to), at.down[to]});
  }
  for (std::size_t site = 0; site < at.sites; ++site)
    see(busy.up[site], [&] { return "the uplink of " + wan.sites[site].name; });
  for (std::size_t site = 0; site < at.sites; ++site)
    see(busy.down[site], [&] { return "the downlink of " + wan.sites[site].name; });
  for (const auto& [way, load] : bytes)
    see(load / at.pair(way.first, way.second), [&, way = way] {
      return "the pair from " + wan.sites[way.first].name + " to " + wan.sites[way.second].name;
    });
  for (const Wan::Shared& link : at.shared) {
    double seconds = 0;
    for (const SitePair& way : link.pairs) {
      const auto load = bytes.find(way);
      if (load == bytes.end()) continue;
      seconds += load->second / link.rate;
      busy.pairs[way] = std::max(busy.pairs[way], load->second / link.rate);
    }
    see(seconds, [&] { return "the shared link " + link.name; });
  }
  return busy;
}

}  // namespace longhaul::flow
