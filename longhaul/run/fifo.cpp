#include "longhaul/run/fifo.h"

#include <cmath>

#include <fmt/format.h>

#include "longhaul/run/job/site_index.h"

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

}  // namespace

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

}  // namespace longhaul::run
