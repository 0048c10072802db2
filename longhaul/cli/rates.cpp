#include "longhaul/cli/rates.h"

#include <variant>
#include <vector>

#include "longhaul/cli/cli.h"
#include "longhaul/run/workload.h"

namespace longhaul::cli {
namespace {

// Returns what the settings say, else the default.
std::optional<double> number_in(const Settings& settings, const std::vector<FieldDoc>& docs,
                                std::string_view key) {
  const Value* value = nullptr;
  for (const FieldDoc& doc : docs)
    if (doc.field.name == key && !doc.absent) value = &doc.data;
  if (const Setting* entry = settings.find(key)) value = &entry->value;
  if (!value) return std::nullopt;
  if (const auto* whole = std::get_if<std::int64_t>(&value->data)) return double(*whole);
  if (const auto* real = std::get_if<double>(&value->data)) return *real;
  return std::nullopt;
}

}  // namespace

std::optional<double> number_of(const run::Job& job, std::string_view table, std::string_view key) {
  if (table == "optimizer") return number_in(job.optimizer, job.optimizer_docs, key);
  if (table == "outer") return number_in(job.outer.settings, job.outer.entry->describe(), key);
  return number_in(job.sync.settings, job.sync.entry->describe(), key);
}

std::optional<double> scale_rate(run::Job& job, double factor) {
  const auto rate = number_of(job, "optimizer", "rate");
  if (!rate) return std::nullopt;
  job.optimizer.set({"rate", {*rate * factor}, "tuned", 0});
  for (run::SiteTable& site : job.sites)
    if (site.rate) *site.rate *= factor;
  return *rate * factor;
}

std::optional<double> scale_outer_rate(run::Job& job, double factor) {
  const auto rate = number_of(job, "outer", "rate");
  if (!rate) return std::nullopt;
  job.outer.settings.set({"rate", {*rate * factor}, "tuned", 0});
  return *rate * factor;
}

Result<bool> says_rate(const run::Job& job) {
  if (job.kind("model") != "own") return number_of(job, "optimizer", "rate").has_value();
  const run::OwnLearners* own = embedding().learners;
  return own && own->uses_rate ? own->uses_rate(job) : Result<bool>(false);
}

std::optional<double> rate_of_site(const run::Job& job, const run::SiteTable& site) {
  if (site.rate) return site.rate;
  const Setting* entry = job.optimizer.find("rate");
  if (!entry || entry->file.starts_with("preset of ")) return std::nullopt;
  return number_of(job, "optimizer", "rate");
}

}  // namespace longhaul::cli
