#include "longhaul/report/seed_groups.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <tuple>

#include "longhaul/report/run_reader.h"

namespace longhaul::report {
namespace {

using nlohmann::ordered_json;

constexpr const char* kSeed = "[job] seed";

bool is_accuracy(const ordered_json& run) { return run.value("score_unit", "") == "accuracy"; }

bool is_diverged(const ordered_json& run) {
  const auto summary = run.find("summary");
  return summary != run.end() && summary->is_object() &&
         summary->value("stop_reason", "") == "diverged";
}

// Of runs with equal keys only the seed differs; "": not known.
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
