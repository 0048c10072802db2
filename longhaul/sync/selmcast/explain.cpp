#include "longhaul/sync/selmcast/explain.h"

#include <fmt/format.h>

namespace longhaul::sync::selmcast {
namespace {

std::string receivers_text(const Place& place, const std::vector<Rank>& workers,
                           const std::vector<std::uint32_t>& receivers) {
  std::string text;
  for (const std::uint32_t j : receivers)
    text += (text.empty() ? "" : ", ") + place.member(workers[j]).site;
  return text;
}

}  // namespace

Explanation explain_plan(const Config& config, const PlanConfig& plan_config, const Place& place) {
  std::vector<Rank> workers;
  for (Rank rank = 0; rank < place.size(); ++rank)
    if (place.member(rank).is(Role::worker)) workers.push_back(rank);
  const auto n = std::uint32_t(workers.size());
  const double bytes = double(place.layout->size()) * sizeof(float);
  const flow::MulticastNetwork network = network_of(plan_config, workers);
  const std::uint32_t least = at_least(plan_config, n);
  flow::MulticastRound round;
  round.volumes.assign(n, bytes);
  round.at_least.assign(n, least);
  Random random(place.seed, {Purpose::members, 0, 0});
  const flow::MulticastPlan plan = choose_receivers(plan_config, network, round, random);
  double receivers = 0;
  for (const auto& of : plan.receivers) receivers += double(of.size()) / n;
  const bool is_configured = !plan_config.network.up.empty() && !plan_config.is_measured;
  Explanation said;
  said.lines.push_back(fmt::format(
      "Each worker sends {} of {:.3g} MB to {} others at least, chosen {}.",
      config.payload == "update" ? "what it owes" : "its model", bytes / 1e6,
      std::min(least, n - 1),
      config.receivers == "selmcast" ? "by bandwidth, and to more where that costs no time"
      : config.receivers == "optimal"
          ? "by an integer programme: the least time, the most receivers"
      : config.receivers == "orpheus" ? "by chance"
                                      : "all"));
  if (is_configured)
    said.lines.push_back(fmt::format(
        "The first round takes {:.3g} s by the rates of [wan], with {:.2f} receivers in the mean "
        "({:.0f} % of the workers).",
        plan.time, receivers, 100 * receivers / n));
  else
    said.lines.push_back("Rates are not known before the first round: all count as equal.");
  if (config.overdue_after > 0)
    said.lines.push_back(fmt::format(
        "A pair that has waited for {} rounds is served in the next, however slow it is.",
        config.overdue_after));
  if (config.mode == "ssp")
    said.lines.push_back(fmt::format(
        "mode = \"ssp\": each is given receivers when it is ready, those that cost others time are "
        "withdrawn, and nobody begins a round more than {} ahead of the slowest.",
        config.staleness));
  Explanation::Table table{.title = "Receivers of the first round",
                           .head = {"site", "count", "seconds", "receivers"},
                           .rows = {}};
  for (std::uint32_t i = 0; i < n; ++i) {
    double slowest =
        double(network.by_network ? 1 : plan.receivers[i].size()) * bytes / network.up[i];
    for (const std::uint32_t j : plan.receivers[i])
      if (!network.pairs.empty())
        slowest = std::max(slowest, bytes / network.pairs[i * network.size() + j]);
    table.rows.push_back({place.member(workers[i]).site,
                          fmt::format("{}", plan.receivers[i].size()),
                          is_configured ? fmt::format("{:.3g}", slowest) : "-",
                          receivers_text(place, workers, plan.receivers[i])});
  }
  said.tables.push_back(std::move(table));
  return said;
}

}  // namespace longhaul::sync::selmcast
