#include "longhaul/sync/selmcast/config.h"

#include "longhaul/flow/capacities.h"
#include "longhaul/overlay/belief.h"

namespace longhaul::sync::selmcast {
namespace {

// Rates that count as unlimited: bytes/s.
constexpr double kMostRate = 1e15;

flow::MulticastNetwork multicast_network(const std::shared_ptr<const flow::Wan>& network,
                                         const Place& place) {
  flow::MulticastNetwork ports;
  if (!network) return ports;
  const flow::Wan wan = flow::at_highest(*network);
  const std::vector<std::uint32_t> sites = overlay::sites_of(wan, place);
  const overlay::RateBelief rates = overlay::rates_of(network, place);
  for (Rank rank = 0; rank < place.size(); ++rank) {
    const flow::Wan::Site& site = wan.sites[sites[rank]];
    ports.up.push_back(std::min(kMostRate, site.up.value_or(kMostRate)));
    ports.down.push_back(std::min(kMostRate, site.down.value_or(kMostRate)));
    for (Rank to = 0; to < place.size(); ++to)
      ports.pairs.push_back(std::min(kMostRate, rates(rank, to)));
  }
  return ports;
}

}  // namespace

PlanConfig plan_config(const Config& config, const SyncParts& parts, const Place& place) {
  using Receivers = PlanConfig::Receivers;
  return {.receivers = config.receivers == "all"       ? Receivers::all
                       : config.receivers == "orpheus" ? Receivers::random
                                                       : Receivers::selected,
          .share = config.share,
          .overdue_after = config.overdue_after,
          .network = multicast_network(parts.network, place)};
}

}  // namespace longhaul::sync::selmcast
