#include "longhaul/run/job/hetero.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "longhaul/base/rng.h"
#include "longhaul/flow/trace.h"
#include "longhaul/run/job/check.h"

namespace longhaul::run {
namespace {

constexpr double kUsualStep = 20;  // ms, as of [[site]]

// Roles that are no list of texts are refused when the site is read.
bool has_workers(const Settings& site) {
  const Setting* roles = site.find("roles");
  const auto* list = roles ? std::get_if<std::vector<Value>>(&roles->value.data) : nullptr;
  if (!list) return true;
  return std::any_of(list->begin(), list->end(), [](const Value& role) {
    const auto* text = std::get_if<std::string>(&role.data);
    return text && *text == "worker";
  });
}

// Checks that the keys of the table are complete, and that none would be ignored.
Status check_spread(const Settings& table, const HeteroTable& hetero) {
  if (hetero.spread == "measured") {
    if (hetero.ratio)
      return about(table, "ratio", "no ratio with spread = \"measured\": factors say it");
    if (!hetero.factors || hetero.factors->empty() || hetero.factors->front() != 1 ||
        !std::is_sorted(hetero.factors->begin(), hetero.factors->end()))
      return about(table, "factors",
                   "step times of machines over that of the fastest, ascending from 1, for "
                   "example [1, 1.5, 4]");
    return Ok{};
  }
  if (hetero.factors) return about(table, "factors", "spread = \"measured\" beside it, or none");
  const bool asked = table.find("spread") || table.find("order") || table.find("step_ms");
  if (asked && !hetero.ratio)
    return about(table, "ratio",
                 "the slowest site's step_ms over the fastest's, for example ratio = 150");
  return Ok{};
}

// Returns the step time of the k-th fastest of n sites over that of the fastest.
double factor_of(const HeteroTable& hetero, std::size_t k, std::size_t n) {
  if (n == 1) return 1;
  const double place = double(k) / double(n - 1);
  if (!hetero.factors) return std::pow(*hetero.ratio, place);
  // Interpolates geometrically between two machines.
  const std::vector<double>& factors = *hetero.factors;
  const double at = place * double(factors.size() - 1);
  const std::size_t below = std::min(std::size_t(at), factors.size() - 1);
  const double beyond = at - double(below);
  if (beyond == 0) return factors[below];
  return factors[below] * std::pow(factors[below + 1] / factors[below], beyond);
}

Status spread_steps(const Settings& table, const HeteroTable& hetero, std::uint64_t seed,
                    std::vector<Settings*>& sites) {
  const Setting& source = *table.find(hetero.factors ? "factors" : "ratio");
  for (const Settings* site : sites)
    for (const char* key : {"step_ms", "step_trace", "step_at_s", "step_values"})
      if (site->find(key))
        return about(*site, key,
                     fmt::format("no {} beside [hetero] {}, which says the step time of every "
                                 "site ({}); leave one of them out",
                                 key, source.key, source_of(source)));
  if (hetero.order == "shuffled") {
    Random random(seed, {Purpose::speeds});
    random.shuffle(std::span(sites));
  }
  for (std::size_t k = 0; k < sites.size(); ++k) {
    const double step = hetero.step_ms.value_or(kUsualStep) * factor_of(hetero, k, sites.size());
    if (step > kMaxStep)
      return about(table, source.key,
                   fmt::format("a step of at most {:g} ms at the slowest site", kMaxStep));
    sites[k]->set({"step_ms", {step}, source.file, source.line});
  }
  return Ok{};
}

Status check_trace(const Settings& table, SiteTable& site) {
  if (!site.step_at_s && !site.step_values) return Ok{};
  for (const auto& [key, there] : {std::pair{"step_at_s", bool(site.step_at_s)},
                                   std::pair{"step_values", bool(site.step_values)}})
    if (!there) return about(table, key, "step_at_s and step_values together");
  const flow::Trace trace{.at = *site.step_at_s, .values = *site.step_values};
  if (const Status good = trace.check(); !good) return about(table, "step_at_s", good.error().what);
  const double first = site.step_values->front();
  if (table.find("step_ms") && site.step_ms != first)
    return about(table, "step_ms",
                 fmt::format("no step_ms beside a trace, which begins with {}", first));
  site.step_ms = first;
  return Ok{};
}

}  // namespace

Status expand_hetero(Document& doc) {
  const Settings table = doc.table("hetero");
  HeteroTable hetero;
  LH_TRY(read_settings(table, hetero, {}));
  LH_TRY(check_spread(table, hetero));
  JobTable job;
  LH_TRY(read_settings(doc.table("job"), job, {}));
  std::vector<Settings*> sites;
  for (Settings& site : doc.sites)
    if (has_workers(site)) sites.push_back(&site);
  for (const std::string_view key : field_names<DriftKeys>())
    if (const Setting* entry = table.find(key))
      for (Settings* site : sites)
        if (!site->find(key)) site->set(*entry);
  if (!hetero.ratio && !hetero.factors) return Ok{};
  return spread_steps(table, hetero, job.seed, sites);
}

Status settle_step_times(const Document& doc, Job& job) {
  for (std::size_t i = 0; i < job.sites.size(); ++i) {
    SiteTable& site = job.sites[i];
    LH_TRY(check_trace(doc.sites[i], site));
    for (const auto& [key, there] : {std::pair{"drift_every_s", bool(site.drift_every_s)},
                                     std::pair{"drift_bound", bool(site.drift_bound)}})
      if (there && !site.drift)
        return about(doc.sites[i], key,
                     "drift beside it: without, step times do not drift; for example drift = 0.2");
  }
  return Ok{};
}

}  // namespace longhaul::run
