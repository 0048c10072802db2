#include "longhaul/report/verdict.h"

#include <algorithm>
#include <optional>
#include <tuple>

#include <fmt/format.h>

#include "longhaul/report/run_reader.h"

namespace longhaul::report {
namespace {

using nlohmann::ordered_json;

std::optional<double> figure(const ordered_json& run, const char* key) {
  const auto summary = run.find("summary");
  if (summary == run.end() || !summary->is_object()) return std::nullopt;
  const auto at = summary->find(key);
  if (at == summary->end() || !at->is_number()) return std::nullopt;
  return at->get<double>();
}

std::string seconds_text(double s) {
  if (s < 120) return fmt::format("{:.3g} s", s);
  if (s < 7200) return fmt::format("{:.3g} min", s / 60);
  return fmt::format("{:.3g} h", s / 3600);
}

std::string size_text(double bytes) {
  if (bytes < 1e6) return fmt::format("{:.3g} kB", bytes / 1e3);
  return bytes < 1e9 ? fmt::format("{:.3g} MB", bytes / 1e6)
                     : fmt::format("{:.3g} GB", bytes / 1e9);
}

std::string target_of(const ordered_json& run) {
  const double target =
      run.value("target", ordered_json(0.0)).is_number() ? run.at("target").get<double>() : 0;
  return run.value("score_unit", "") == "accuracy" ? fmt::format("{:g} %", 100 * target)
                                                   : fmt::format("{:g} bits per byte", target);
}

// Two runs of the same parts are told apart by their labels.
std::string name_of(const ordered_json& run, const std::vector<ordered_json>& all) {
  const std::string parts = parts_text(run);
  const auto same = std::count_if(all.begin(), all.end(),
                                  [&](const auto& other) { return parts_text(other) == parts; });
  return same > 1 ? fmt::format("{} ({})", run.value("label", ""), parts) : parts;
}

std::string busiest_of(const ordered_json& run) {
  const auto plan = run.find("plan");
  if (plan == run.end() || !plan->is_object() || !plan->contains("busiest")) return "";
  const auto& busiest = (*plan)["busiest"];
  return busiest.is_string() ? busiest.get<std::string>() : "";
}

std::string limits_text(const ordered_json& first, const ordered_json* second) {
  const std::string one = busiest_of(first), two = second ? busiest_of(*second) : "";
  if (one.empty()) return "";
  std::string upper = one;
  upper[0] = char(std::toupper(static_cast<unsigned char>(upper[0])));
  if (second && one == two) return fmt::format(" {} is the busiest link of both.", upper);
  return fmt::format(" Its busiest link is {}.", one);
}

std::string one_run(const ordered_json& run) {
  std::string text = parts_text(run);
  const auto time = figure(run, "time_s");
  if (!time) return text + " is under way.";
  const auto reached = figure(run, "time_to_target_s");
  if (reached)
    text += fmt::format(" reached {} in {}", target_of(run), seconds_text(*reached));
  else
    text += fmt::format(" ran for {}", seconds_text(*time));
  if (!reached && run.at("target").is_number())
    text += fmt::format(" without reaching {}", target_of(run));
  text += fmt::format(", with {} between sites.", size_text(figure(run, "wan_bytes").value_or(0)));
  return text + limits_text(run, nullptr);
}

// Smaller is better: time to the target, or else the score.
double standing_of(const ordered_json& run) {
  if (const auto reached = figure(run, "time_to_target_s")) return *reached;
  const auto& scores = run.at("scores").at("score");
  const double score =
      scores.empty() || !scores.back().is_number() ? 0 : scores.back().get<double>();
  return 1e18 - 1e12 * (run.value("score_unit", "") == "accuracy" ? score : -score);
}

// One order with cli/compare_ranking.cpp.
std::tuple<double, double, std::string> order_of(const ordered_json& run) {
  return {standing_of(run), figure(run, "wan_bytes").value_or(0), run.value("label", "")};
}

}  // namespace

void sort_runs(std::vector<ordered_json>& runs) {
  std::stable_sort(runs.begin(), runs.end(), [](const ordered_json& a, const ordered_json& b) {
    return order_of(a) < order_of(b);
  });
}

std::string verdict_text(const std::vector<ordered_json>& runs) {
  if (runs.empty()) return "";
  if (runs.size() == 1) return one_run(runs.front());
  const ordered_json &first = runs[0], &second = runs[1];
  const auto a = figure(first, "time_to_target_s"), b = figure(second, "time_to_target_s");
  if (!a) {
    const bool any_target = first.at("target").is_number();
    return fmt::format("{}{} has the best score.",
                       any_target ? fmt::format("No run reached {}. ", target_of(first)) : "",
                       name_of(first, runs));
  }
  std::string text = fmt::format("{} reaches {} first: in {} with {} between sites",
                                 name_of(first, runs), target_of(first), seconds_text(*a),
                                 size_text(figure(first, "wan_bytes").value_or(0)));
  const double ratio = b.value_or(0) / std::max(*a, 1e-9);
  const std::string next =
      fmt::format("{} ({}, {})", name_of(second, runs), seconds_text(b.value_or(0)),
                  size_text(figure(second, "wan_bytes").value_or(0)));
  if (!b)
    text += "; no other run reached it.";
  else if (ratio < 1.01)
    text += fmt::format("; {} takes as long.", next);
  else
    text += fmt::format(", {:.2f} times sooner than {}.", ratio, next);
  return text + limits_text(first, &second);
}

}  // namespace longhaul::report
