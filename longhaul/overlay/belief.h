#pragma once
// The nodes' belief of the links between them, taken from the job's description of its network
// (OverlayParts::network), for overlays that plan. It never uses the simulator's links.
#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string_view>
#include <vector>

#include "longhaul/base/check.h"
#include "longhaul/core/place.h"
#include "longhaul/flow/capacities.h"
#include "longhaul/flow/wan.h"

namespace longhaul::overlay {

// Returns the number of each node's site in the network, by rank. CHECKs that the network has it.
inline std::vector<std::uint32_t> sites_of(const flow::Wan& network, const Place& place) {
  std::map<std::string_view, std::uint32_t> numbers;
  for (std::uint32_t site = 0; site < network.sites.size(); ++site)
    numbers.emplace(network.sites[site].name, site);
  std::vector<std::uint32_t> sites;
  for (const Member& member : *place.members) {
    const auto number = numbers.find(member.site);
    LH_CHECK(number != numbers.end());
    sites.push_back(number->second);
  }
  return sites;
}

// Bytes per second that a node can send to another; infinite: unlimited. Empty: no belief.
using RateBelief = std::function<double(Rank from, Rank to)>;

// Returns the least rate of pair, uplink and downlink, or the rate of the LAN; the highest rate of
// links that change with time. `network`: null for no belief.
inline RateBelief rates_of(const std::shared_ptr<const flow::Wan>& network, const Place& place) {
  if (!network) return {};
  const auto wan = std::make_shared<const flow::Wan>(flow::at_highest(*network));
  return [wan, sites = sites_of(*wan, place)](Rank from, Rank to) {
    const std::uint32_t a = sites[from], b = sites[to];
    if (a == b) return wan->sites[a].lan.value_or(flow::kUnlimited);
    return std::min({wan->capacity(a, b).value_or(flow::kUnlimited),
                     wan->sites[a].up.value_or(flow::kUnlimited),
                     wan->sites[b].down.value_or(flow::kUnlimited)});
  };
}

// One-way delay from a node to another, in seconds.
using DelayBelief = std::function<double(Rank from, Rank to)>;
// Returns the delay of the pair, or of the LAN. `network`: null for no belief.
inline DelayBelief delays_of(const std::shared_ptr<const flow::Wan>& network, const Place& place) {
  if (!network) return {};
  return [network, sites = sites_of(*network, place)](Rank from, Rank to) {
    const std::uint32_t a = sites[from], b = sites[to];
    return a == b ? network->sites[a].lan_delay_s : network->pair(a, b).delay_s;
  };
}

}  // namespace longhaul::overlay
