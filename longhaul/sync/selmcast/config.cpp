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

Status check(const Config& config, const Place& place) {
  constexpr std::uint32_t kMostOptimal = 30;
  std::uint32_t workers = 0;
  for (const Member& member : *place.members) workers += member.is(Role::worker) ? 1 : 0;
  const bool is_ssp = config.mode == "ssp";
  if (config.receivers == "optimal" && is_ssp)
    return invalid(
        "[sync] receivers: expected another than \"optimal\" with mode = \"ssp\": it plans rounds "
        "of all workers");
  if (config.receivers == "optimal" && workers > kMostOptimal)
    return invalid("[sync] receivers = \"optimal\": expected " + std::to_string(kMostOptimal) +
                   " workers at most, found " + std::to_string(workers) +
                   "; \"selmcast\" plans for more");
  if (config.payload != "update") return Ok{};
  if (is_ssp)
    return invalid(
        "[sync] payload: expected \"model\" with mode = \"ssp\", whose transfers may be withdrawn");
  if (config.multicast == "l3")
    return invalid(
        "[sync] payload: expected \"model\" with multicast = \"l3\": each receiver is owed "
        "something else");
  const double needed = double(workers - 1) * double(place.layout->size()) * sizeof(float) / 1e6;
  if (needed > config.debt_mb)
    return invalid("[sync] payload = \"update\" needs " + std::to_string(std::uint64_t(needed)) +
                   " MB for what a worker owes the others: raise debt_mb, or choose \"model\"");
  return Ok{};
}

PlanConfig plan_config(const Config& config, const SyncParts& parts, const Place& place) {
  using Receivers = PlanConfig::Receivers;
  flow::MulticastNetwork network = multicast_network(parts.network, place);
  network.by_network = config.multicast == "l3";
  return {.receivers = config.receivers == "all"       ? Receivers::all
                       : config.receivers == "orpheus" ? Receivers::random
                       : config.receivers == "optimal" ? Receivers::optimal
                                                       : Receivers::selected,
          .share = config.share,
          .overdue_after = config.overdue_after,
          .is_measured = config.rates == "measured",
          .network = std::move(network)};
}

}  // namespace longhaul::sync::selmcast
