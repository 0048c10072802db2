#include "longhaul/cli/compare_ranking.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <tuple>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "longhaul/cli/output.h"
#include "longhaul/run/progress.h"

namespace longhaul::cli {
namespace {

using Summaries = std::vector<run::Summary>;

std::vector<double> values_of(const Summaries& runs,
                              const std::function<std::optional<double>(const run::Summary&)>& of) {
  std::vector<double> values;
  for (const run::Summary& run : runs)
    if (const auto value = of(run)) values.push_back(*value);
  return values;
}

std::optional<Spread> spread(const std::vector<double>& values) {
  if (values.empty()) return std::nullopt;
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  return Spread{median(values), *low, *high};
}

std::optional<double> score_of(const run::Summary& s) {
  if (s.bits_per_byte()) return s.bits_per_byte();
  return s.final_accuracy && (*s.final_accuracy > 0 || !s.final_loss) ? s.final_accuracy
                                                                      : s.final_loss;
}

bool diverged(const RankedGroup& group) {
  return std::any_of(group.runs.begin(), group.runs.end(), [](const run::Summary& s) {
    return s.stop_reason == run::StopReason::diverged;
  });
}

void fill(RankedGroup& group, const run::CostTable& prices) {
  const Summaries& runs = group.runs;
  auto middle = [&](auto&& of) {
    return median(
        values_of(runs, [&](const run::Summary& s) { return std::optional<double>(of(s)); }));
  };
  const auto times = values_of(runs, [](const run::Summary& s) { return s.time_to_target_s; });
  group.reached = times.size();
  // A run that does not get there takes longer than any that does.
  if (2 * times.size() > runs.size()) {
    group.target = spread(times);
    std::vector<double> all = times;
    all.resize(runs.size(), std::numeric_limits<double>::infinity());
    group.target->median = median(all);
  }
  group.time = *spread(values_of(runs, [](const auto& s) { return std::optional(s.time_s); }));
  group.score = spread(values_of(runs, score_of));
  const run::Summary& first = runs.front();
  group.lower_is_better =
      first.bits_per_byte() || !(first.final_accuracy && *first.final_accuracy > 0);
  group.wan_bytes = middle([](const run::Summary& s) { return double(s.wan_bytes); });
  group.computing = middle([](const run::Summary& s) { return s.compute_utilisation; });
  group.rounds = middle([](const run::Summary& s) { return double(s.rounds); });
  group.real_s = middle([](const run::Summary& s) { return s.real_s; });
  if (prices.has_prices())
    group.cost = middle([&](const run::Summary& s) {
      return prices.of(double(s.wan_bytes), s.time_s * double(s.nodes));
    });
}

// Smaller is better. One order with report/verdict.cpp: time to the target, or else the score; then
// bytes between sites; then the name.
auto order_of(const RankedGroup& g) {
  const bool any_target = g.runs.front().has_target();
  const int standing = diverged(g) ? 2 : any_target && !g.target ? 1 : 0;
  const double time = g.target ? g.target->median : 0;
  double score = g.score ? g.score->median : g.time.median;
  if (g.score && !g.lower_is_better) score = -score;
  if (g.target) score = 0;
  return std::tuple(standing, time, score, g.wan_bytes, g.label);
}

std::string percent_or_dash(const std::optional<double>& share, int digits) {
  return share ? fmt::format("{:.{}f} %", 100 * *share, digits) : "-";
}

std::string target_text(const run::Summary& s) {
  if (s.target_bits_per_byte) return fmt::format("{:g} bits", *s.target_bits_per_byte);
  return s.target_accuracy ? fmt::format("{:g} %", 100 * *s.target_accuracy) : std::string();
}

std::string time_text(const Spread& time, bool several) {
  std::string text = run::duration_text(time.median);
  if (several)
    text += fmt::format(" ({} to {})", run::duration_text(time.min), run::duration_text(time.max));
  return text;
}

std::string time_cell(const RankedGroup& g) {
  const bool several = g.runs.size() > 1;
  if (diverged(g)) return "diverged";
  if (!g.runs.front().has_target()) return time_text(g.time, several);
  if (!g.target)
    return several && g.reached > 0 ? fmt::format("reached by {} of {}", g.reached, g.runs.size())
                                    : "not reached";
  std::string text = time_text(*g.target, several);
  if (g.reached < g.runs.size()) text += fmt::format(", {} of {}", g.reached, g.runs.size());
  return text;
}

std::string score_text(const RankedGroup& g) {
  if (!g.score) return "-";
  return g.lower_is_better ? fmt::format("{:.4f}", g.score->median)
                           : percent_or_dash(g.score->median, 2);
}

nlohmann::ordered_json spread_json(const std::optional<Spread>& spread) {
  if (!spread) return nullptr;
  return {{"median", spread->median}, {"min", spread->min}, {"max", spread->max}};
}

}  // namespace

std::vector<RankedGroup> ranked(const std::vector<std::pair<std::string, run::Summary>>& runs,
                                const run::CostTable& prices) {
  std::vector<RankedGroup> groups;
  std::map<std::string, std::size_t> index;
  for (const auto& [label, summary] : runs) {
    const auto [at, fresh] = index.emplace(label, groups.size());
    if (fresh) groups.push_back({.label = label});
    groups[at->second].runs.push_back(summary);
  }
  for (RankedGroup& group : groups) fill(group, prices);
  std::stable_sort(groups.begin(), groups.end(), [](const RankedGroup& a, const RankedGroup& b) {
    return order_of(a) < order_of(b);
  });
  return groups;
}

bool has_winner(const std::vector<RankedGroup>& groups) {
  if (groups.empty() || diverged(groups.front())) return false;
  return groups.front().target || !groups.front().runs.front().has_target();
}

std::string verdict(const std::vector<RankedGroup>& groups) {
  if (groups.empty()) return "";
  const RankedGroup& first = groups.front();
  const run::Summary& s = first.runs.front();
  if (!has_winner(groups))
    return s.has_target() ? fmt::format("none reached {} within the budget; the nearest is {} ({})",
                                        target_text(s), first.label, score_text(first))
                          : "";
  if (groups.size() == 1) return "";
  const RankedGroup& second = groups[1];
  if (!s.has_target())
    return fmt::format("{} is first ({}); next is {} ({})", first.label,
                       first.score ? score_text(first) : run::duration_text(first.time.median),
                       second.label,
                       first.score ? score_text(second) : run::duration_text(second.time.median));
  std::string text =
      fmt::format("{} is first: {} in {} with {} between sites", first.label, target_text(s),
                  run::duration_text(first.target->median), run::bytes_text(first.wan_bytes));
  if (!second.target) return text + "; no other reached it";
  const double ratio = second.target->median / std::max(first.target->median, 1e-9);
  const std::string next = fmt::format("{} ({})", second.label, run::bytes_text(second.wan_bytes));
  if (ratio < 1.01) return text + fmt::format("; {} takes as long", next);
  return text + fmt::format("; {:.2f} times sooner than {}", ratio, next);
}

std::string ranking_text(const std::string& name, const std::vector<RankedGroup>& groups,
                         const run::CostTable& prices) {
  if (groups.empty()) return "";
  const run::Summary& any = groups.front().runs.front();
  const bool bits = any.data == "text", accuracy = any.final_accuracy && *any.final_accuracy > 0;
  std::vector<std::string> head = {
      name, "overlay", any.has_target() ? "time to " + target_text(any) : std::string("time"),
      "rounds", "WAN MB"};
  if (prices.has_prices()) head.push_back("cost " + prices.currency.value_or(""));
  for (const char* more : {"computing",
                           bits       ? "bits/byte"
                           : accuracy ? "accuracy"
                                      : "loss",
                           "real time"})
    head.emplace_back(more);
  std::vector<std::vector<std::string>> rows;
  for (const RankedGroup& g : groups) {
    std::vector<std::string> row = {g.label, g.runs.front().overlay, time_cell(g),
                                    fmt::format("{:g}", g.rounds),
                                    fmt::format("{:.2f}", g.wan_bytes / 1e6)};
    if (prices.has_prices()) row.push_back(fmt::format("{:.2f}", g.cost.value_or(0)));
    row.push_back(percent_or_dash(g.computing, 1));
    row.push_back(score_text(g));
    row.push_back(run::duration_text(g.real_s));
    rows.push_back(std::move(row));
  }
  return text_table(head, rows);
}

nlohmann::ordered_json to_json(const RankedGroup& g) {
  const run::Summary& s = g.runs.front();
  const bool bits = s.bits_per_byte().has_value();
  nlohmann::ordered_json json = {{"label", g.label},
                                 {"sync", s.sync},
                                 {"overlay", s.overlay},
                                 {"transfer", s.transfer},
                                 {"codec", s.codec},
                                 {"outer", s.outer},
                                 {"runs", g.runs.size()},
                                 {"reached", g.reached},
                                 {"time_to_target_s", spread_json(g.target)},
                                 {"time_s", spread_json(g.time)},
                                 {bits                ? "bits_per_byte"
                                  : g.lower_is_better ? "final_loss"
                                                      : "final_accuracy",
                                  spread_json(g.score)},
                                 {"rounds", g.rounds},
                                 {"wan_bytes", g.wan_bytes},
                                 {"compute_utilisation", g.computing}};
  if (g.cost) json["cost"] = *g.cost;
  return json;
}

}  // namespace longhaul::cli
