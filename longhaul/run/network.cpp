#include "longhaul/run/network.h"

#include <cmath>
#include <set>

#include "longhaul/sim/fair_network.h"
#include "longhaul/sim/fifo_network.h"

namespace longhaul::run {
namespace {

using What = flow::Traced::What;

flow::Rate rate_of(const std::optional<double>& mbps, double scale) {
  return mbps ? flow::Rate(sim::mbps(*mbps * scale)) : std::nullopt;
}

double from_ms(double ms) { return ms * 1e-3; }

flow::Wan::Pair pair_of(const Job& job, const LinkTable& link) {
  const WanTable& wan = job.wan;
  return {.rate = rate_of(link.mbps ? link.mbps : wan.mbps, wan.rate_scale),
          .delay_s = from_ms(link.delay_ms.value_or(wan.delay_ms)),
          .jitter_s = from_ms(link.jitter_ms.value_or(wan.jitter_ms)),
          .loss = link.loss.value_or(wan.loss)};
}

flow::Wan::Shared shared_of(const Job& job, const SharedTable& table) {
  std::set<flow::SitePair> pairs;
  for (const std::string& from : table.from)
    for (const std::string& to : table.to) {
      const std::uint32_t a = site_index(job, from), b = site_index(job, to);
      if (a == b) continue;
      pairs.insert({a, b});
      if (table.both) pairs.insert({b, a});
    }
  return {.name = table.name,
          .rate = sim::mbps(*table.mbps * job.wan.rate_scale),
          .pairs = {pairs.begin(), pairs.end()}};
}

// A trace of every site or pair that the table means; a quantity that an earlier one follows stays
// with it.
void add_traces(const Job& job, const TraceTable& table, flow::Wan& wan,
                std::set<std::pair<What, flow::SitePair>>& taken) {
  const auto follow = [&](What what, std::uint32_t a, std::uint32_t b) {
    if (taken.insert({what, {a, b}}).second)
      wan.traces.push_back({what, a, b, trace_of(table, job.wan.rate_scale)});
  };
  const auto meant = [&](const std::string& name, std::uint32_t site) {
    return name.empty() || job.sites[site].name == name;
  };
  const auto count = std::uint32_t(job.sites.size());
  if (table.what == "shared") {
    for (std::uint32_t i = 0; i < job.shared.size(); ++i)
      if (job.shared[i].name == table.shared) follow(What::shared, i, 0);
    return;
  }
  const bool of_site = table.what == "up" || table.what == "down";
  const What what = table.what == "up"      ? What::up
                    : table.what == "down"  ? What::down
                    : table.what == "rate"  ? What::rate
                    : table.what == "delay" ? What::delay
                                            : What::loss;
  for (std::uint32_t a = 0; a < count; ++a) {
    if (of_site && meant(table.site, a)) follow(what, a, 0);
    if (of_site || !meant(table.from, a)) continue;
    for (std::uint32_t b = 0; b < count; ++b)
      if (a != b && meant(table.to, b)) follow(what, a, b);
  }
}

Time nanoseconds(double s) { return Time{std::llround(s * 1e9)}; }

sim::FifoConfig fifo_of(const flow::Wan& wan) {
  sim::FifoConfig config;
  for (const flow::Wan::Site& site : wan.sites)
    config.sites.push_back({.up = site.up,
                            .down = site.down,
                            .lan = site.lan,
                            .lan_delay = nanoseconds(site.lan_delay_s)});
  const auto link = [](const flow::Wan::Pair& pair) {
    return sim::FifoConfig::Link{pair.rate, nanoseconds(pair.delay_s)};
  };
  config.link = link(wan.usual);
  for (const auto& [sites, pair] : wan.pairs) config.links[sites] = link(pair);
  return config;
}

sim::FairConfig fair_of(const Job& job, flow::Wan wan) {
  using Control = flow::Tcp::Control;
  sim::FairConfig config;
  config.wan = std::move(wan);
  config.seed = job.job.seed;
  config.tcp.control = job.wan.tcp == "bbr" ? Control::bbr : Control::cubic;
  config.tcp.bbr_threshold = job.wan.bbr_threshold;
  if (!job.wan.slow_start) config.tcp.first_window = 0;
  config.datagrams.burst = job.wan.loss_burst;
  return config;
}

}  // namespace

std::uint32_t site_index(const Job& job, const std::string& name) {
  for (std::uint32_t i = 0; i < job.sites.size(); ++i)
    if (job.sites[i].name == name) return i;
  LH_CHECK(false);  // check_job knows all names
  return 0;
}

flow::Wan wan_of(const Job& job) {
  flow::Wan wan;
  const double scale = job.wan.rate_scale;
  for (const SiteTable& site : job.sites)
    wan.sites.push_back({.name = site.name,
                         .up = rate_of(site.up_mbps, scale),
                         .down = rate_of(site.down_mbps, scale),
                         .lan = rate_of(job.wan.lan_mbps, 1)});
  wan.usual = pair_of(job, {});
  for (const LinkTable& link : job.links) {
    const std::uint32_t from = site_index(job, link.from), to = site_index(job, link.to);
    wan.pairs[{from, to}] = pair_of(job, link);
    if (link.both) wan.pairs[{to, from}] = pair_of(job, link);
  }
  for (const SharedTable& shared : job.shared) wan.shared.push_back(shared_of(job, shared));
  std::set<std::pair<What, flow::SitePair>> taken;
  for (const TraceTable& trace : job.traces) add_traces(job, trace, wan, taken);
  return wan;
}

std::unique_ptr<sim::Network> make_network(const Job& job, const Members& members) {
  std::map<std::string_view, std::uint32_t> index;
  for (std::uint32_t i = 0; i < job.sites.size(); ++i) index[job.sites[i].name] = i;
  std::vector<std::uint32_t> site_of;
  for (const Member& member : members) site_of.push_back(index.at(member.site));
  flow::Wan wan = wan_of(job);
  if (job.wan.model == "fair") {
    sim::FairConfig config = fair_of(job, std::move(wan));
    config.site_of = std::move(site_of);
    return std::make_unique<sim::FairNetwork>(std::move(config));
  }
  sim::FifoConfig config = fifo_of(wan);
  config.site_of = std::move(site_of);
  return std::make_unique<sim::FifoNetwork>(std::move(config));
}

}  // namespace longhaul::run
