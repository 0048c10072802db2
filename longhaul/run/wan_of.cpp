#include "longhaul/run/wan_of.h"

namespace longhaul::run {
namespace {

flow::Rate rate_of(const std::optional<double>& mbps, double scale) {
  return mbps ? flow::Rate(*mbps * scale * 125000) : std::nullopt;
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
  wan.usual = {.rate = rate_of(job.wan.mbps, scale),
               .delay_s = job.wan.delay_ms * 1e-3,
               .loss = job.wan.loss};
  for (const LinkTable& link : job.links) {
    const flow::Wan::Pair own = {.rate = rate_of(link.mbps ? link.mbps : job.wan.mbps, scale),
                                 .delay_s = link.delay_ms.value_or(job.wan.delay_ms) * 1e-3,
                                 .loss = link.loss};
    const std::uint32_t from = site_index(job, link.from), to = site_index(job, link.to);
    wan.pairs[{from, to}] = own;
    if (link.both) wan.pairs[{to, from}] = own;
  }
  return wan;
}

}  // namespace longhaul::run
