#include "longhaul/run/step_times.h"

#include <cmath>
#include <map>

namespace longhaul::run {
namespace {

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
