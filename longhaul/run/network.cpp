#include "longhaul/run/network.h"

#include <cmath>
#include <map>

#include <fmt/format.h>

#include "longhaul/run/job/site_index.h"
#include "longhaul/run/pacing.h"
#include "longhaul/sim/fair_network.h"
#include "longhaul/sim/packet_network.h"

namespace longhaul::run {
namespace {

Time from_s(double s) { return Time{std::int64_t(std::llround(s * 1e9))}; }

Status check_fifo(const Job& job) {
  constexpr const char* kOnly =
      "FIFO queues of fixed rates cannot do that; say [wan] model = \"fair\" (docs/simulator.md)";
  if (!job.network.shared.empty())
    return invalid(fmt::format("{}: [wan] preset = \"{}\": pairs share the link '{}': {}", job.file,
                               job.wan.preset, job.network.shared.front().name, kOnly));
  if (!job.network.traces.empty())  // of the preset: [[wan.trace]] is refused before
    return invalid(fmt::format("{}: [wan] preset = \"{}\": rates are redrawn every {:g} s: {}",
                               job.file, job.wan.preset, job.network.traces.front().trace.every_s,
                               kOnly));
  return Ok{};
}

sim::FairConfig fair_config(const Job& job, const Members& members) {
  using Control = flow::Tcp::Control;
  sim::FairConfig config;
  config.wan = job.network;
  // Paced connections fill no queues.
  config.paced = !planned_pacing(job).empty();
  if (config.paced) config.wan.queue = flow::Wan::Queue::per_flow;
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

Result<std::unique_ptr<sim::Network>> packet_network(const Job& job, const Members& members) {
  constexpr std::size_t kMost = 32;
  const auto refused = [&](std::string_view key, std::string_view expected) {
    return invalid(
        fmt::format("{}: {}: expected {} with [wan] model = \"packet\"", job.file, key, expected));
  };
  if (members.size() > kMost)
    return refused("[[site]]", fmt::format("{} nodes at most, found {}", kMost, members.size()));
  if (job.wan.tcp != "bbr") return refused("[wan] tcp", "\"bbr\"");
  if (!job.wan.slow_start) return refused("[wan] slow_start", "true");
  if (!job.transfer.entry->traits.lossless) return refused("[transfer] kind", "\"reliable\"");
  if (job.network.streams > 1) return refused("[net] streams", "1");
  sim::PacketConfig config{
      .wan = job.network, .site_of = {}, .seed = job.job.seed, .pacing = planned_pacing(job)};
  const SiteIndex sites(job.sites);
  for (const Member& member : members) config.site_of.push_back(sites.at(member.site));
  return std::unique_ptr<sim::Network>(std::make_unique<sim::PacketNetwork>(std::move(config)));
}

using Speed = sim::JitteredSteps::Speed;

Time from_ms(double ms) { return Time{std::int64_t(std::llround(ms * 1e6))}; }

sim::JitteredSteps::Jitter jitter_of(const SiteTable& site) {
  using Jitter = sim::JitteredSteps::Jitter;
  if (site.jitter == 0) return Jitter::none;
  if (site.jitter_kind == "uniform") return Jitter::uniform;
  return site.jitter_kind == "lognormal" ? Jitter::lognormal : Jitter::exponential;
}

Speed speed_of(const SiteTable& site, std::uint32_t index) {
  Speed speed{.mean = from_ms(site.step_ms),
              .jitter = jitter_of(site),
              .amount = site.jitter,
              .site = index};
  if (site.step_values)
    speed.trace = flow::Trace{.at = *site.step_at_s, .values = *site.step_values};
  speed.drift.deviation = site.drift.value_or(0);
  speed.drift.every_s = site.drift_every_s.value_or(speed.drift.every_s);
  speed.drift.bound = site.drift_bound.value_or(speed.drift.bound);
  return speed;
}

}  // namespace

Result<std::unique_ptr<sim::Network>> make_network(const Job& job, const Members& members) {
  if (job.wan.model == "fair")
    return std::unique_ptr<sim::Network>(
        std::make_unique<sim::FairNetwork>(fair_config(job, members)));
  if (entry_with(*job.sync.entry, job.sync.settings).traits.network_multicast)
    return invalid(job.file + ": [wan] model: expected \"fair\" with [sync] multicast = \"l3\"");
  if (job.wan.model == "packet") return packet_network(job, members);
  LH_LET(config, fifo_config(job, members));
  return std::unique_ptr<sim::Network>(std::make_unique<sim::FifoNetwork>(std::move(config)));
}

Result<sim::FifoConfig> fifo_config(const Job& job, const Members& members) {
  LH_TRY(check_fifo(job));
  const flow::Wan& wan = job.network;
  sim::FifoConfig config;
  bool several = false;
  for (const flow::Wan::Site& site : wan.sites) {
    config.sites.push_back({site.up, site.down, site.lan, from_s(site.lan_delay_s)});
    several = several || site.nodes > 1;
  }
  const SiteIndex index(wan.sites);
  for (const Member& member : members) config.site_of.push_back(index.at(member.site));
  auto link = [&](std::uint32_t from, std::uint32_t to) {
    return sim::FifoConfig::Link{wan.capacity(from, to), from_s(wan.pair(from, to).delay_s)};
  };
  config.link = {wan.usual.rate, from_s(wan.usual.delay_s)};
  const auto sites = std::uint32_t(wan.sites.size());
  if (wan.usual.flow && !several && sites > 1) {
    const double all = *wan.usual.flow * wan.streams;
    config.link.rate = wan.usual.rate ? std::min(*wan.usual.rate, all) : all;
  } else if (wan.usual.flow) {  // more nodes, more connections
    for (std::uint32_t from = 0; from < sites; ++from)
      for (std::uint32_t to = 0; to < sites; ++to)
        if (from != to) config.links[{from, to}] = link(from, to);
  }
  for (const auto& [way, pair] : wan.pairs) config.links[way] = link(way.first, way.second);
  return config;
}

std::unique_ptr<sim::ComputeTime> step_times(const Job& job, const Members& members) {
  std::vector<Speed> speeds;
  std::map<std::string_view, std::uint32_t> sites;
  for (std::uint32_t i = 0; i < job.sites.size(); ++i) sites[job.sites[i].name] = i;
  for (const Member& member : members) {
    const std::uint32_t site = sites.at(member.site);
    speeds.push_back(speed_of(job.sites[site], site));
  }
  return std::make_unique<sim::JitteredSteps>(job.job.seed, std::move(speeds));
}

}  // namespace longhaul::run
