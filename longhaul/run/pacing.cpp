#include "longhaul/run/pacing.h"

#include <algorithm>

#include "longhaul/flow/bound.h"
#include "longhaul/flow/link_usage.h"
#include "longhaul/flow/tcp.h"
#include "longhaul/run/plan.h"

namespace longhaul::run {
namespace {

constexpr double kMbytes = 25;  // size of the planned vector: shares hardly depend on it

bool learns_rates(const Job& job) {
  const Setting* rates = job.overlay.settings.find("rates");
  const auto* said = rates ? std::get_if<std::string>(&rates->value.data) : nullptr;
  return said && *said == "learned";
}

}  // namespace

std::map<std::pair<Rank, Rank>, double> planned_pacing(const Job& job) {
  std::map<std::pair<Rank, Rank>, double> pacing;
  const flow::Wan& wan = job.network;
  const bool several =
      std::ranges::any_of(wan.sites, [](const flow::Wan::Site& site) { return site.nodes > 1; });
  if (job.net.pacing != "plan" || wan.queue != flow::Wan::Queue::drop_tail || several ||
      wan.streams > 1 || learns_rates(job))
    return pacing;
  const auto plan = plan_of(job, kMbytes);
  if (!plan || !plan->planned || plan->at_end) return pacing;
  std::map<flow::SitePair, double> bytes;
  for (const SitePlan::Pair& pair : plan->pairs)
    bytes[{pair.from, pair.to}] = double(pair.bytes()) * flow::kIpPerByte;
  const flow::LinkUsage busy = flow::link_usage(wan, bytes);
  // Each pair is as fast as the busiest link on its path allows for all pairs that cross the link.
  // Acknowledgements of the opposite direction cross it, too.
  const double payload = (1 - flow::ack_share({})) / flow::kIpPerByte;
  std::map<flow::SitePair, double> shared;  // time of the busiest shared link on the path
  for (const flow::Wan::Shared& link : wan.shared) {
    double seconds = 0;
    for (const flow::SitePair& way : link.pairs)
      if (const auto load = bytes.find(way); load != bytes.end())
        seconds += load->second / link.rate;
    for (const flow::SitePair& way : link.pairs) shared[way] = std::max(shared[way], seconds);
  }
  for (const auto& [way, load] : bytes) {
    const double seconds =
        std::max({busy.up[way.first], busy.down[way.second], busy.pairs.at(way), shared[way]});
    if (load > 0 && seconds > 0) pacing[way] = load / seconds * payload;
  }
  return pacing;
}

}  // namespace longhaul::run
