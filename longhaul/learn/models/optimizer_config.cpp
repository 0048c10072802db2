#include "longhaul/learn/models/optimizer_config.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace longhaul::learn {
namespace {

struct Owned {  // a key that only some values of another key read
  std::string_view key, of;
  std::vector<std::string_view> values;
};

Status check_keys(const Settings& settings, const OptimizerConfig& config) {
  const Owned table[] = {
      {"momentum", "kind", {"sgd", "muon"}},
      {"nesterov", "kind", {"sgd", "muon"}},
      {"beta1", "kind", {"adam", "adamw", "muon"}},
      {"beta2", "kind", {"adam", "adamw", "muon"}},
      {"epsilon", "kind", {"adagrad", "adam", "adamw", "muon"}},
      {"adamw_rate", "kind", {"muon"}},
      {"by_adamw", "kind", {"muon"}},
      {"steps", "schedule", {"step", "cosine"}},
      {"factor", "schedule", {"step"}},
      {"min_rate", "schedule", {"cosine"}},
  };
  for (const Owned& owned : table) {
    const std::string& value = owned.of == "kind" ? config.kind : config.schedule;
    const Setting* setting = settings.find(owned.key);
    if (setting && !std::ranges::count(owned.values, value))
      return bad_setting(settings, *setting,
                         "no such key with " + std::string(owned.of) + " = \"" + value +
                             "\": it belongs to \"" + std::string(owned.values.front()) + "\"");
  }
  return Ok{};
}

}  // namespace

Result<OptimizerConfig> read_optimizer(const Settings& settings) {
  OptimizerConfig config;
  LH_TRY(read_settings(settings, config));
  LH_TRY(check_keys(settings, config));
  if (config.nesterov.value_or(false) && config.inertia() == 0)
    return bad_setting(settings, *settings.find("nesterov"), "a momentum above 0 beside it");
  if (config.schedule == "cosine" && config.min_rate > config.rate)
    return bad_setting(settings, *settings.find("min_rate"), "at most the rate");
  return config;
}

double rate_at(const OptimizerConfig& c, std::uint64_t step) {
  if (step < c.warmup_steps) return c.rate * double(step + 1) / double(c.warmup_steps);
  const std::uint64_t t = step - c.warmup_steps;
  if (c.schedule == "step") return c.rate * std::pow(c.factor, double(t / c.steps));
  if (c.schedule == "cosine") {
    const double part = double(std::min(t, c.steps)) / double(c.steps);
    return c.min_rate + (c.rate - c.min_rate) * 0.5 * (1 + std::cos(std::numbers::pi * part));
  }
  return c.rate;
}

}  // namespace longhaul::learn
