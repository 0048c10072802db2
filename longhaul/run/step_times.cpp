#include "longhaul/run/step_times.h"

#include <cmath>
#include <map>

namespace longhaul::run {
namespace {

Time from_ms(double ms) { return Time{std::int64_t(std::llround(ms * 1e6))}; }

sim::JitteredSteps::Jitter jitter_of(const SiteTable& site) {
  using Jitter = sim::JitteredSteps::Jitter;
  if (site.jitter == 0) return Jitter::none;
  if (site.jitter_kind == "uniform") return Jitter::uniform;
  return site.jitter_kind == "lognormal" ? Jitter::lognormal : Jitter::exponential;
}

}  // namespace

std::unique_ptr<sim::ComputeTime> step_times(const Job& job, const Members& members) {
  std::vector<sim::JitteredSteps::Speed> speeds;
  std::map<std::string_view, const SiteTable*> sites;
  for (const SiteTable& site : job.sites) sites[site.name] = &site;
  for (const Member& member : members) {
    const SiteTable& site = *sites.at(member.site);
    speeds.push_back({from_ms(site.step_ms), jitter_of(site), site.jitter});
  }
  return std::make_unique<sim::JitteredSteps>(job.job.seed, std::move(speeds));
}

}  // namespace longhaul::run
