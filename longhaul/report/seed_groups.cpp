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

constexpr double kNever = std::numeric_limits<double>::infinity();
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

void fill_group(SeedGroup& group) {
  std::vector<double> times, scores, bytes;
  for (const ordered_json* run : group.runs) {
    if (const auto reached = figure(*run, "time_to_target_s")) times.push_back(*reached);
    if (const auto score = score_of(*run)) scores.push_back(*score);
    bytes.push_back(figure(*run, "wan_bytes").value_or(0));
    group.diverged |= is_diverged(*run);
  }
  group.label = label_of(group);
  group.real = is_real(*group.runs.front());
  if (2 * times.size() > group.runs.size()) {
    group.target = spread_of(times);
    times.resize(group.runs.size(), kNever);
    group.target->median = median(times);
  }
  if (!scores.empty()) group.score = median(scores);
  group.wan_bytes = median(bytes);
}

// Smaller is better.
auto order_of(const SeedGroup& g) {
  const int standing = g.diverged ? 2 : g.target ? 0 : 1;
  double score = g.score.value_or(kNever);
  if (g.score && is_accuracy(*g.runs.front())) score = -score;
  if (g.target) score = 0;
  return std::tuple(g.real, standing, g.target ? g.target->median : 0, score, g.wan_bytes, g.label);
}

// What decides between a group and the first, a value for each seed; less is better.
std::vector<double> deciding_values(const SeedGroup& group, const SeedGroup& first) {
  std::vector<double> values;
  for (const ordered_json* run : group.runs) {
    if (first.target && !figure(*run, "time_s")) continue;  // under way
    auto value = first.target ? figure(*run, "time_to_target_s") : score_of(*run);
    if (value && !first.target && is_accuracy(*run)) value = -*value;
    values.push_back(is_diverged(*run) ? std::numeric_limits<double>::quiet_NaN()
                                       : value.value_or(kNever));
  }
  return values;
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

std::optional<double> score_of(const ordered_json& run) {
  const auto& scores = run.at("scores").at("score");
  if (scores.empty() || !scores.back().is_number()) return std::nullopt;
  return scores.back().get<double>();
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
    return order_of(a) < order_of(b);
  });
  return groups;
}

std::vector<Difference> group_differences(const std::vector<SeedGroup>& groups) {
  std::vector<std::vector<double>> values;
  for (const SeedGroup& group : groups) values.push_back(deciding_values(group, groups.front()));
  return differences_from_first(values);
}

}  // namespace longhaul::report
