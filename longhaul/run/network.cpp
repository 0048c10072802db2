#include "longhaul/run/network.h"

#include "longhaul/run/fifo.h"
#include "longhaul/run/job/site_index.h"
#include "longhaul/sim/fair_network.h"

namespace longhaul::run {
namespace {

sim::FairConfig fair_config(const Job& job, const Members& members) {
  using Control = flow::Tcp::Control;
  sim::FairConfig config;
  config.wan = job.network;
  const SiteIndex sites(job.sites);
  for (const Member& member : members) config.site_of.push_back(sites.at(member.site));
  config.seed = job.job.seed;
  config.tcp.control = job.wan.tcp == "bbr" ? Control::bbr : Control::cubic;
  config.tcp.bbr_threshold = job.wan.bbr_threshold;
  if (!job.wan.slow_start) config.tcp.first_window = 0;
  config.multicast_priority =
      entry_with(*job.sync.entry, job.sync.settings).traits.network_multicast;
  return config;
}

}  // namespace

Result<std::unique_ptr<sim::Network>> make_network(const Job& job, const Members& members) {
  if (job.wan.model == "fair")
    return std::unique_ptr<sim::Network>(
        std::make_unique<sim::FairNetwork>(fair_config(job, members)));
  if (entry_with(*job.sync.entry, job.sync.settings).traits.network_multicast)
    return invalid(job.file + ": [wan] model: expected \"fair\" with [sync] multicast = \"l3\"");
  auto config = fifo_config(job, members);
  if (!config) return config.error();
  return std::unique_ptr<sim::Network>(std::make_unique<sim::FifoNetwork>(*std::move(config)));
}

}  // namespace longhaul::run
