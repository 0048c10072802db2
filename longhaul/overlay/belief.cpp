#include "longhaul/overlay/belief.h"

#include <algorithm>
#include <map>
#include <string_view>

#include "longhaul/base/check.h"
#include "longhaul/flow/capacities.h"

namespace longhaul::overlay {

std::vector<std::uint32_t> sites_of(const flow::Wan& network, const Place& place) {
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

RateBelief rates_of(const std::shared_ptr<const flow::Wan>& network, const Place& place) {
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

DelayBelief delays_of(const std::shared_ptr<const flow::Wan>& network, const Place& place) {
  if (!network) return {};
  return [network, sites = sites_of(*network, place)](Rank from, Rank to) {
    const std::uint32_t a = sites[from], b = sites[to];
    return a == b ? network->sites[a].lan_delay_s : network->pair(a, b).delay_s;
  };
}

}  // namespace longhaul::overlay
