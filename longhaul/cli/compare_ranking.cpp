#include "longhaul/cli/compare_ranking.h"

#include <algorithm>
#include <cctype>
#include <functional>
#include <map>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "longhaul/cli/output.h"
#include "longhaul/run/progress.h"

namespace longhaul::cli {
namespace {

using report::Difference;
using report::Spread;
using Summaries = std::vector<run::Summary>;

std::vector<double> values_of(const Summaries& runs,
                              const std::function<std::optional<double>(const run::Summary&)>& of) {
  std::vector<double> values;
  for (const run::Summary& run : runs)
    if (const auto value = of(run)) values.push_back(*value);
  return values;
}

report::Outcome outcome_of(const run::Summary& s) {
  report::Outcome outcome{.diverged = s.stop_reason == run::StopReason::diverged,
                          .target_s = s.time_to_target_s,
                          .time_s = s.time_s,
                          .wan_bytes = double(s.wan_bytes)};
  outcome.set_score(s.bits_per_byte(), s.final_accuracy, s.final_loss);
  return outcome;
}

std::vector<report::Outcome> outcomes_of(const RankedGroup& group) {
  std::vector<report::Outcome> outcomes;
  for (const run::Summary& s : group.runs) outcomes.push_back(outcome_of(s));
  return outcomes;
}

void fill(RankedGroup& group, const run::CostTable& prices) {
  const Summaries& runs = group.runs;
  auto middle = [&](auto&& of) {
    return report::median(
        values_of(runs, [&](const run::Summary& s) { return std::optional<double>(of(s)); }));
  };
  static_cast<report::Standing&>(group) = report::standing_of(outcomes_of(group));
  group.computing = middle([](const run::Summary& s) { return s.compute_utilisation; });
  group.rounds = middle([](const run::Summary& s) { return double(s.rounds); });
  group.real_s = middle([](const run::Summary& s) { return s.real_s; });
  if (prices.has_prices())
    group.cost = middle([&](const run::Summary& s) {
      return prices.of(double(s.wan_bytes), s.time_s * double(s.nodes));
    });
}

void fill_differences(std::vector<RankedGroup>& groups) {
  std::vector<std::vector<report::Outcome>> outcomes;
  for (const RankedGroup& group : groups) outcomes.push_back(outcomes_of(group));
  const std::vector<Difference> all = report::differences_from_first(outcomes, groups.front());
  for (std::size_t i = 0; i < groups.size(); ++i) groups[i].from_first = all[i];
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
  if (g.diverged) return "diverged";
  if (!g.runs.front().has_target()) return time_text(*g.time, several);
  if (!g.target)
    return several && g.reached > 0 ? fmt::format("reached by {} of {}", g.reached, g.runs.size())
                                    : "not reached";
  std::string text = time_text(*g.target, several);
  if (g.reached < g.runs.size()) text += fmt::format(", {} of {}", g.reached, g.runs.size());
  return text;
}

std::string score_text(const RankedGroup& g) {
  if (!g.score) return "not scored";
  return g.lower_is_better ? fmt::format("{:.4f}", g.score->median)
                           : percent_or_dash(g.score->median, 2);
}

// With the range where it decides the place.
std::string score_cell(const RankedGroup& g) {
  if (!g.score || g.target || g.runs.size() == 1) return score_text(g);
  const double unit = g.lower_is_better ? 1 : 100;
  return fmt::format("{} ({:.{}f} to {:.{}f})", score_text(g), unit * g.score->min,
                     g.lower_is_better ? 4 : 2, unit * g.score->max, g.lower_is_better ? 4 : 2);
}

std::size_t most_seeds(const std::vector<RankedGroup>& groups) {
  std::size_t most = 0;
  for (const RankedGroup& group : groups) most = std::max(most, group.runs.size());
  return most;
}

std::string seeds_text(std::size_t seeds) {
  return seeds == 1 ? "one seed" : count_text(seeds, "seed");
}

bool got_there(const RankedGroup& g) {
  return !g.diverged && (g.target || !g.runs.front().has_target());
}

// By the median: "97 % in 27.0 s with 23.76 MB between sites", "98.12 %".
std::string result_text(const RankedGroup& g) {
  if (g.diverged) return "diverged";
  if (g.target)
    return fmt::format("{} in {} with {} between sites", target_text(g.runs.front()),
                       run::duration_text(g.target->median), run::bytes_text(g.wan_bytes));
  if (g.runs.front().has_target()) return time_cell(g);
  return g.score ? score_text(g) : run::duration_text(g.time->median);
}

std::string tied_names(const std::vector<RankedGroup>& groups) {
  std::vector<std::string> names;
  for (const RankedGroup& group : groups)
    if (group.from_first == Difference::tie) names.push_back(group.label);
  return report::names_text(names);
}

std::string none_reached(const std::vector<RankedGroup>& groups) {
  const RankedGroup& first = groups.front();
  std::string text =
      fmt::format("none reached {} within the budget; ", target_text(first.runs.front()));
  if (first.from_first == Difference::tie)
    return text + fmt::format("the nearest, {}, tie: the ranges of their scores over {} overlap",
                              tied_names(groups), seeds_text(first.runs.size()));
  text += fmt::format("the nearest is {} ({})", first.label, score_text(first));
  return text + (first.from_first == Difference::one_seed ? ", which one seed cannot tell" : "");
}

std::string tie_text(const std::vector<RankedGroup>& groups) {
  const RankedGroup& first = groups.front();
  return fmt::format("{} tie: the ranges of their {} over {} overlap; the best median is {}'s: {}",
                     tied_names(groups),
                     first.target  ? "times to " + target_text(first.runs.front())
                     : first.score ? std::string("scores")
                                   : std::string("times"),
                     seeds_text(first.runs.size()), first.label, result_text(first));
}

std::string one_seed_text(const std::vector<RankedGroup>& groups) {
  return fmt::format("one seed cannot tell which is first{}: {} has {}, {} has {}",
                     most_seeds(groups) == 1 ? " (--seeds 3 may)" : "", groups[0].label,
                     result_text(groups[0]), groups[1].label, result_text(groups[1]));
}

std::string first_text(const std::vector<RankedGroup>& groups) {
  const RankedGroup &first = groups[0], &second = groups[1];
  const std::string of = fmt::format(", by the median of {}", seeds_text(first.runs.size()));
  if (!first.target)
    return fmt::format("{} is first ({}); next is {} ({}){}", first.label, result_text(first),
                       second.label, result_text(second), of);
  const std::string text = fmt::format("{} is first: {}; ", first.label, result_text(first));
  if (second.diverged) return text + "all others diverged";
  if (!second.target) return text + "no other reached it" + of;
  return text + fmt::format("{:.2f} times sooner than {} ({}){}",
                            second.target->median / std::max(first.target->median, 1e-9),
                            second.label, run::bytes_text(second.wan_bytes), of);
}

nlohmann::ordered_json spread_json(const std::optional<Spread>& spread) {
  if (!spread) return nullptr;
  return {{"median", spread->median}, {"min", spread->min}, {"max", spread->max}};
}

// Null: one seed cannot tell.
nlohmann::ordered_json ties_json(const RankedGroup& g) {
  if (g.from_first == Difference::one_seed) return nullptr;
  return g.from_first == Difference::tie;
}

std::string quoted(const std::string& word) {
  if (word.find_first_not_of(
          "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./:") ==
          std::string::npos &&
      !word.empty())
    return word;
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

std::string shell_line(const std::string& program, const EmittedTask& task) {
  std::string line = quoted(program);
  for (const std::string& word : task.command) line += " " + quoted(word);
  return line;
}

// A name of Kubernetes: lower case letters, digits and -, at most 63.
std::string dns_name(const std::string& name, std::size_t number) {
  std::string text;
  for (const char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    text += std::isalnum(byte) ? char(std::tolower(byte)) : '-';
  }
  return fmt::format("longhaul-{}-{}", text.substr(0, 40), number);
}

std::string yaml_quoted(const std::string& word) {
  std::string text = "\"";
  for (const char c : word)
    text += c == '"' || c == '\\' ? std::string("\\") + c : std::string(1, c);
  return text + "\"";
}

std::string slurm(const std::string& name, const std::string& program,
                  const std::vector<EmittedTask>& tasks) {
  std::string text = fmt::format(
      "#!/bin/bash\n#SBATCH --job-name={}\n#SBATCH --array=0-{}\n#SBATCH --ntasks=1\n"
      "commands=(\n",
      quoted(name), tasks.size() - 1);
  for (const EmittedTask& task : tasks) text += "  " + quoted(shell_line(program, task)) + "\n";
  return text + ")\neval \"${commands[$SLURM_ARRAY_TASK_ID]}\"\n";
}

std::string k8s(const std::string& program, const std::vector<EmittedTask>& tasks) {
  std::string text;
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    std::string words = yaml_quoted(program);
    for (const std::string& word : tasks[i].command) words += ", " + yaml_quoted(word);
    text += fmt::format(
        "---\napiVersion: batch/v1\nkind: Job\nmetadata: {{name: {}}}\nspec:\n"
        "  backoffLimit: 2\n  template:\n    spec:\n      restartPolicy: Never\n"
        "      containers:\n      - name: run\n        image: longhaul  # yours\n"
        "        workingDir: /jobs\n        command: [{}]\n"
        "        volumeMounts: [{{name: jobs, mountPath: /jobs}}]\n"
        "      volumes: [{{name: jobs, persistentVolumeClaim: {{claimName: longhaul}}}}]  # "
        "yours\n",
        dns_name(tasks[i].name, i), words);
  }
  return text;
}

}  // namespace

std::vector<RankedGroup> ranked(const std::vector<std::pair<std::string, run::Summary>>& runs,
                                const run::CostTable& prices) {
  std::vector<RankedGroup> groups;
  std::map<std::string, std::size_t> index;
  for (const auto& [label, summary] : runs) {
    const auto [at, fresh] = index.emplace(label, groups.size());
    if (fresh) groups.emplace_back().label = label;
    groups[at->second].runs.push_back(summary);
  }
  for (RankedGroup& group : groups) fill(group, prices);
  std::stable_sort(groups.begin(), groups.end(), [](const RankedGroup& a, const RankedGroup& b) {
    return report::is_ahead(a, a.label, b, b.label);
  });
  if (!groups.empty()) fill_differences(groups);
  return groups;
}

bool has_winner(const std::vector<RankedGroup>& groups) {
  return !groups.empty() && got_there(groups.front()) &&
         groups.front().from_first == Difference::clear;
}

std::string verdict(const std::vector<RankedGroup>& groups) {
  if (groups.empty()) return "";
  const RankedGroup& first = groups.front();
  if (!got_there(first)) return first.runs.front().has_target() ? none_reached(groups) : "";
  if (groups.size() == 1) return "";
  switch (first.from_first) {
    case Difference::tie:
      return tie_text(groups);
    case Difference::one_seed:
      return one_seed_text(groups);
    case Difference::clear:
      return first_text(groups);
  }
  return "";
}

std::string ranking_text(const std::string& name, const std::vector<RankedGroup>& groups,
                         const run::CostTable& prices) {
  if (groups.empty()) return "";
  const run::Summary& any = groups.front().runs.front();
  const bool bits = any.data == "text", accuracy = any.final_accuracy && *any.final_accuracy > 0;
  const std::size_t seeds = most_seeds(groups);
  std::vector<std::string> head = {
      name + ", " + seeds_text(seeds), "overlay",
      any.has_target() ? "time to " + target_text(any) : std::string("time"), "rounds", "WAN MB"};
  if (prices.has_prices()) head.push_back(prices.currency ? "cost " + *prices.currency : "cost");
  for (const char* more : {"computing",
                           bits       ? "bits/byte at end"
                           : accuracy ? "accuracy at end"
                                      : "loss at end",
                           "real time"})
    head.emplace_back(more);
  std::vector<std::vector<std::string>> rows;
  for (const RankedGroup& g : groups) {
    const bool fewer = g.runs.size() < seeds;
    std::vector<std::string> row = {
        g.label + (fewer ? " (" + seeds_text(g.runs.size()) + ")" : ""), g.runs.front().overlay,
        time_cell(g), fmt::format("{:g}", g.rounds), fmt::format("{:.2f}", g.wan_bytes / 1e6)};
    if (prices.has_prices()) row.push_back(fmt::format("{:.2f}", g.cost.value_or(0)));
    row.push_back(percent_or_dash(g.computing, 1));
    row.push_back(score_cell(g));
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
                                 {"ties_with_best", ties_json(g)},
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

std::string emitted_tasks(const std::string& kind, const std::string& name,
                          const std::string& program, const std::vector<EmittedTask>& tasks) {
  if (tasks.empty()) return "";
  if (kind == "slurm") return slurm(name, program, tasks);
  if (kind == "k8s") return k8s("longhaul", tasks);
  std::string text;
  for (const EmittedTask& task : tasks) text += shell_line(program, task) + "\n";
  return text;
}

}  // namespace longhaul::cli
