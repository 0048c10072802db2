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

// Checks that a model is kLeastMessages messages or more. A message that the sender's host has
// taken cannot be withdrawn, and the manager no longer counts it as waiting.
Status check_runs(const Place& place) {
  constexpr std::uint64_t kLeastMessages = 16;
  const std::uint64_t in_messages = place.layout->size() / kLeastMessages;
  if (!place.phantom || place.chunk_run == 1 || place.longest_piece() <= in_messages) return Ok{};
  const std::uint64_t most = in_messages / (place.longest_piece() / place.chunk_run);
  return invalid("[transfer] chunk_run: expected " +
                 std::to_string(std::max<std::uint64_t>(most, 1)) +
                 " at most with [sync] mode = \"ssp\", found " + std::to_string(place.chunk_run) +
                 ": a model must be " + std::to_string(kLeastMessages) +
                 " messages or more, so that it can be withdrawn on its way");
}

}  // namespace

Status check(const Config& config, const Place& place) {
  constexpr std::uint32_t kMostOptimal = 30;
  const std::size_t workers = place.members.with(Role::worker).size();
  const bool is_ssp = config.mode == "ssp";
  if (config.receivers == "optimal" && is_ssp)
    return invalid(
        "[sync] receivers: expected another than \"optimal\" with mode = \"ssp\": it plans rounds "
        "of all workers");
  if (config.receivers == "optimal" && workers > kMostOptimal)
    return invalid("[sync] receivers = \"optimal\": expected " + std::to_string(kMostOptimal) +
                   " workers at most, found " + std::to_string(workers) +
                   "; \"selmcast\" plans for more");
  if (is_ssp) LH_TRY(check_runs(place));
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
