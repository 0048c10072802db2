#include "longhaul/cli/output.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "longhaul/base/printable.h"
#include "longhaul/cli/cli.h"
#include "longhaul/run/checkpoint.h"
#include "longhaul/run/progress.h"

namespace longhaul::cli {
namespace {

std::string percent(const std::optional<double>& share) {
  return share ? fmt::format("{:.2f} %", 100 * *share) : "-";
}

}  // namespace

int print_error(const Error& error) {
  fmt::print(stderr, "longhaul: {}\n", printable(error.what));
  return error.kind == Error::Kind::timed_out ? kFailed : kBadUsage;
}

std::string text_table(const std::vector<std::string>& head,
                       const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths(head.size(), 0);
  auto measure = [&](const std::vector<std::string>& row) {
    for (std::size_t i = 0; i < row.size() && i < widths.size(); ++i)
      widths[i] = std::max(widths[i], row[i].size());
  };
  measure(head);
  for (const auto& row : rows) measure(row);
  auto line = [&](const std::vector<std::string>& row) {
    std::string text;
    for (std::size_t i = 0; i < widths.size(); ++i) {
      const std::string cell = i < row.size() ? row[i] : "";
      text += i == 0 ? fmt::format("{:<{}}", cell, widths[i])
                     : fmt::format("  {:>{}}", cell, widths[i]);
    }
    text.erase(text.find_last_not_of(' ') + 1);
    return text + "\n";
  };
  std::string text = line(head);
  for (const auto& row : rows) text += line(row);
  return text;
}

std::string count_text(std::size_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::string json_text(const nlohmann::ordered_json& json, int indent) {
  return json.dump(indent, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

void print_run(const run::Summary& s, const std::string& folder, std::string_view time) {
  fmt::print("{}: {} over {}, {} rounds in {} of {} ({})\n", s.name, s.sync, s.overlay, s.rounds,
             run::duration_text(s.time_s), time, run::to_string(s.stop_reason));
  fmt::print("  {}{}\n", evaluation_text(s.final_accuracy, s.final_loss),
             s.final_loss && s.model_is_best ? ": of the last model" : "");
  fmt::print("{}", site_scores_text(s));
  if (s.bits_per_byte()) fmt::print("  {:.4f} bits per byte\n", *s.bits_per_byte());
  if (s.final_loss && !s.best)
    fmt::print("  scored at the end alone; [report] every_rounds says how often on the way\n");
  if (s.has_target())
    fmt::print("  target {} {}\n",
               s.target_accuracy ? percent(s.target_accuracy)
                                 : fmt::format("{:g} bits per byte", *s.target_bits_per_byte),
               s.time_to_target_s ? "reached at " + run::duration_text(*s.time_to_target_s)
                                  : std::string("not reached"));
  if (s.best && s.model_is_best)
    fmt::print("  {} is the best one scored, of round {}: {}\n",
               s.model == "own" ? "model.f32" : "model.pt", s.best->round,
               evaluation_text(s.best->accuracy, s.best->loss));
  if (s.participation.changes > 0 || s.participation_share() < 1)
    fmt::print("  participation {} of all workers, {} of the live ones; {} of {} live\n",
               percent(s.participation_share()), percent(s.participation_of_live()),
               s.participation.live, s.participation.members);
  fmt::print("  {} in {} messages between sites, compute utilisation {}\n",
             run::bytes_text(double(s.wan_bytes)), s.wan_messages, percent(s.compute_utilisation));
  if (s.samples.computed > 0) fmt::print("  {}\n", samples_text(s.samples));
  fmt::print("{}", statistics_text(s.statistics, s.participation.members));
  fmt::print("  {} of real time; written to {}\n", run::duration_text(s.real_s), folder);
  fmt::print("{}", pace_text(s));
  if (s.lab) fmt::print("  {}\n", lab_text(*s.lab));
  print_trouble(s);
}

void print_trouble(const run::Summary& s) {
  for (const std::string& warning : s.warnings)
    fmt::print(stderr, "WARNING: {}\n", printable(warning));
  if (!s.failure.empty()) fmt::print(stderr, "longhaul: {}\n", printable(s.failure));
}

std::string evaluation_text(const std::optional<double>& accuracy,
                            const std::optional<double>& loss) {
  if (!loss) return "not scored";
  return (accuracy ? fmt::format("accuracy {:.2f} %, ", 100 * *accuracy) : "") +
         fmt::format("loss {:.4f}", *loss);
}

std::string site_scores_text(const run::Summary& s) {
  std::string text;
  for (const run::SiteScore& one : s.site_scores)
    text += fmt::format("    {}: {}{}\n", one.site, evaluation_text(one.accuracy, one.loss),
                        one.loss ? fmt::format(" on its {} samples", one.samples) : "");
  return text;
}

std::string samples_text(const SampleCounts& samples) {
  if (!samples.used)
    return fmt::format(
        "{} samples computed; how many are in the model has no exact answer with this strategy",
        samples.computed);
  std::string text = fmt::format("{} samples computed, {} used", samples.computed, *samples.used);
  if (samples.lost > 0) text += fmt::format(", {} lost with nodes", samples.lost);
  if (samples.unused() > 0) text += fmt::format(", {} not used", samples.unused());
  return text;
}

std::string statistics_text(const run::RunStatistics& statistics, std::uint64_t workers) {
  std::string text;
  for (const auto& [cause, time] : statistics.waiting_s)
    text += fmt::format("{} {:.0f} s for the {}", text.empty() ? "  waiting:" : ",", time, cause);
  if (!text.empty()) text += fmt::format(", summed over {} workers\n", workers);
  double updates = 0, rounds = 0;
  for (const auto& [staleness, count] : statistics.staleness) {
    updates += double(count);
    rounds += double(count) * double(staleness);
  }
  if (updates > 0)
    text += fmt::format("  staleness of updates: {:.2f} on average, {} at most\n", rounds / updates,
                        statistics.staleness.rbegin()->first);
  for (const auto& [name, mean] : statistics.means) {
    const double value = mean.sum / double(mean.count);
    if (name == "sent_share")
      text += fmt::format("  values sent of a clock: {:.1f} % on average\n", 100 * value);
    else if (name == "group_size")
      text += fmt::format("  workers in a group: {:.2f} on average\n", value);
  }
  return text;
}

std::string pace_text(const run::Summary& s) {
  if (!s.pace) return "";
  return fmt::format("  {} of {} steps took longer than the simulator has them take ({:.2f} %){}\n",
                     s.pace->overruns, s.pace->steps, 100 * s.pace->share(),
                     s.pace->is_void() ? ": VOID for comparison with it" : "");
}

std::string lab_text(const run::LabFigures& lab) {
  return fmt::format(
      "emulated WAN: {} packets, {} lost, {} dropped by full queues; {:.2f} % delayed{}",
      lab.packets, lab.lost, lab.queue_full, 100 * lab.limited_share,
      lab.router_limited ? ": limited by the router, NOT by the WAN" : " by the router");
}

bool is_interrupted(const run::Summary& summary) {
  return summary.stop_reason == run::StopReason::interrupted;
}

void print_resume_hint(const std::vector<std::string>& nodes) {
  std::vector<std::string> without;
  for (const std::string& folder : nodes)
    if (!run::Checkpoints(folder + "/checkpoints").any()) without.push_back(folder);
  std::string hint = "interrupted; the same command with --resume continues";
  if (!without.empty() && without.size() == nodes.size())
    hint = "interrupted; there is no checkpoint, and --resume starts from the beginning";
  else if (!without.empty())
    hint = fmt::format(
        "interrupted; there is no checkpoint in {}: --resume continues if a majority "
        "has one",
        fmt::join(without, ", "));
  fmt::print(stderr, "longhaul: {}\n", hint);
}

}  // namespace longhaul::cli
