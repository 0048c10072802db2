#include "longhaul/report/seed_ranges.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>

#include <fmt/format.h>

#include "longhaul/report/run_reader.h"

namespace longhaul::report {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
}

double median(std::vector<double> values) {
  if (values.empty()) return std::numeric_limits<double>::quiet_NaN();
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

std::optional<Spread> spread_of(const std::vector<double>& values) {
  if (values.empty()) return std::nullopt;
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  return Spread{median(values), *low, *high};
}

Difference difference_of(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() < 2 || b.size() < 2) return Difference::one_seed;
  const auto is_nan = [](double value) { return std::isnan(value); };
  for (const auto* values : {&a, &b})
    if (std::any_of(values->begin(), values->end(), is_nan)) return Difference::clear;
  const Spread one = *spread_of(a), two = *spread_of(b);
  const double begin = std::max(one.min, two.min), end = std::min(one.max, two.max);
  return begin <= end && std::isfinite(begin) ? Difference::tie : Difference::clear;
}

std::vector<Difference> differences_from_first(const std::vector<std::vector<double>>& values) {
  std::vector<Difference> all(values.size(), Difference::clear);
  for (std::size_t i = 1; i < values.size(); ++i) {
    all[i] = difference_of(values[0], values[i]);
    if (all[i] == Difference::tie || all[0] == Difference::clear) all[0] = all[i];
  }
  return all;
}

void Outcome::set_score(std::optional<double> bits_per_byte, std::optional<double> accuracy,
                        std::optional<double> loss) {
  const bool by_accuracy = !bits_per_byte && accuracy && (*accuracy > 0 || !loss);
  score = bits_per_byte ? bits_per_byte : by_accuracy ? accuracy : loss;
  lower_is_better = !by_accuracy;
}

Standing standing_of(const std::vector<Outcome>& runs) {
  Standing standing;
  std::vector<double> times, scores, ends, bytes;
  for (const Outcome& run : runs) {
    standing.diverged |= run.diverged;
    if (run.target_s) times.push_back(*run.target_s);
    if (run.score) scores.push_back(*run.score), standing.lower_is_better = run.lower_is_better;
    if (run.time_s) ends.push_back(*run.time_s);
    bytes.push_back(run.wan_bytes);
  }
  standing.reached = times.size();
  // A run that does not get there takes longer than any that does.
  if (2 * times.size() > runs.size()) {
    standing.target = spread_of(times);
    times.resize(runs.size(), kNever);
    standing.target->median = median(times);
  }
  standing.score = spread_of(scores);
  standing.time = spread_of(ends);
  standing.wan_bytes = median(bytes);
  return standing;
}

namespace {

// Smaller is better.
auto order_of(const Standing& s, const std::string& label) {
  const int place = s.diverged ? 2 : s.target ? 0 : 1;
  double score = s.score ? s.score->median : s.time ? s.time->median : kNever;
  if (s.score && !s.lower_is_better) score = -score;
  if (s.target) score = 0;
  return std::tuple(place, s.target ? s.target->median : 0, score, s.wan_bytes, label);
}

// Returns the value by which a combination is compared with the first, for one seed; less is
// better.
double deciding_value(const Outcome& run, const Standing& first) {
  if (run.diverged) return std::numeric_limits<double>::quiet_NaN();
  if (!first.target && !first.score) return run.time_s.value_or(kNever);
  const std::optional<double> value = first.target ? run.target_s : run.score;
  if (!value || !std::isfinite(*value)) return kNever;
  return first.target || first.lower_is_better ? *value : -*value;
}

using nlohmann::ordered_json;

constexpr const char* kSeed = "[job] seed";

bool is_accuracy(const ordered_json& run) { return run.value("score_unit", "") == "accuracy"; }

bool is_diverged(const ordered_json& run) {
  const auto summary = run.find("summary");
  return summary != run.end() && summary->is_object() &&
         summary->value("stop_reason", "") == "diverged";
}

// Returns the key of a run: runs with equal keys differ in the seed only; "": not known.
std::string key_of(const ordered_json& run) {
  const auto settings = run.find("settings");
  if (settings == run.end() || !settings->is_object()) return "";
  ordered_json rest = *settings;
  rest.erase(kSeed);
  return rest.dump() + run.value("clock", "") + "|" + run.value("of_site", "");
}

std::string label_of(const SeedGroup& group) {
  const auto above = [](const ordered_json& run) {
    const std::string label = run.value("label", "");
    return label.substr(0, std::min(label.rfind('/'), label.size()));
  };
  if (!group.several()) return group.runs.front()->value("label", "");
  const std::string first = above(*group.runs.front());
  const bool all = std::all_of(group.runs.begin(), group.runs.end(),
                               [&](const ordered_json* run) { return above(*run) == first; });
  return all ? first : parts_text(*group.runs.front());
}

std::vector<Outcome> outcomes_of(const SeedGroup& group) {
  std::vector<Outcome> outcomes;
  for (const ordered_json* run : group.runs) outcomes.push_back(outcome_of(*run));
  return outcomes;
}

void fill_group(SeedGroup& group) {
  static_cast<Standing&>(group) = standing_of(outcomes_of(group));
  group.label = label_of(group);
  group.real = is_real(*group.runs.front());
}

}  // namespace

bool is_ahead(const Standing& a, const std::string& label_a, const Standing& b,
              const std::string& label_b) {
  return order_of(a, label_a) < order_of(b, label_b);
}

std::vector<Difference> differences_from_first(const std::vector<std::vector<Outcome>>& groups,
                                               const Standing& first) {
  std::vector<std::vector<double>> values;
  for (const auto& runs : groups) {
    values.emplace_back();
    for (const Outcome& run : runs)
      if (!first.target || run.time_s)  // an unfinished run may still reach the target
        values.back().push_back(deciding_value(run, first));
  }
  return differences_from_first(values);
}

std::string names_text(const std::vector<std::string>& names) {
  const std::size_t shown = names.size() > 4 ? 3 : names.size();
  std::string text;
  for (std::size_t i = 0; i < shown; ++i) {
    const bool last = i > 0 && i + 1 == names.size();
    text += (i == 0 ? "" : last ? " and " : ", ") + names[i];
  }
  if (shown < names.size()) text += fmt::format(" and {} others", names.size() - shown);
  return text;
}

std::optional<double> figure(const ordered_json& run, const char* key) {
  const auto summary = run.find("summary");
  if (summary == run.end() || !summary->is_object()) return std::nullopt;
  const auto at = summary->find(key);
  if (at == summary->end() || !at->is_number()) return std::nullopt;
  return at->get<double>();
}

bool is_real(const ordered_json& run) { return run.value("clock", "") == "real"; }

Outcome outcome_of(const ordered_json& run) {
  Outcome outcome{.diverged = is_diverged(run),
                  .target_s = figure(run, "time_to_target_s"),
                  .time_s = figure(run, "time_s"),
                  .wan_bytes = figure(run, "wan_bytes").value_or(0)};
  outcome.set_score(figure(run, "bits_per_byte"), figure(run, "final_accuracy"),
                    figure(run, "final_loss"));
  const auto& scores = run.at("scores").at("score");
  if (!outcome.score && !scores.empty() && scores.back().is_number()) {
    outcome.score = scores.back().get<double>();
    outcome.lower_is_better = !is_accuracy(run);
  }
  return outcome;
}

std::vector<SeedGroup> seed_groups(const std::vector<ordered_json>& runs) {
  std::vector<SeedGroup> groups;
  std::map<std::pair<std::string, std::size_t>, std::size_t> index;  // by key and repetition
  std::map<std::string, std::size_t> seen;                           // by key with its seed
  for (const ordered_json& run : runs) {
    const std::string key = key_of(run);
    std::size_t at = groups.size();
    if (!key.empty()) {
      const ordered_json& settings = run.at("settings");
      const std::string seed = settings.contains(kSeed) ? settings.at(kSeed).dump() : "";
      at = index.emplace(std::pair(key, seen[key + seed]++), at).first->second;
    }
    if (at == groups.size()) groups.emplace_back();
    groups[at].runs.push_back(&run);
  }
  for (SeedGroup& group : groups) fill_group(group);
  std::stable_sort(groups.begin(), groups.end(), [](const SeedGroup& a, const SeedGroup& b) {
    return a.real != b.real ? b.real : is_ahead(a, a.label, b, b.label);
  });
  return groups;
}

std::vector<Difference> group_differences(const std::vector<SeedGroup>& groups) {
  std::vector<std::vector<Outcome>> outcomes;
  for (const SeedGroup& group : groups) outcomes.push_back(outcomes_of(group));
  return differences_from_first(outcomes, groups.front());
}

}  // namespace longhaul::report
