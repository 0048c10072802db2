#include "longhaul/run/launch.h"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "longhaul/run/atomic_file.h"
#include "longhaul/run/interrupt.h"
#include "longhaul/run/lab.h"
#include "longhaul/run/nodes.h"
#include "longhaul/run/processes.h"

namespace longhaul::run {
namespace {

// What each `longhaul site` is told beside which node it is.
NodeCommand command_of(const LaunchOptions& options, const Members& members) {
  return {options.program, "site", options.arguments,
          [&](Rank rank) {
            const std::string folder = node_folder(options.folder, members[rank]);
            std::vector<std::string> words = {"--out", folder};
            // A node may have been stopped before it had a folder.
            const bool begun = std::filesystem::exists(folder + "/job.toml");
            if (options.existing == ExistingFolder::resume && begun) words.push_back("--resume");
            if (options.existing == ExistingFolder::force) words.push_back("--force");
            return words;
          },
          options.insecure};
}

// One of all: see launch.h.
Summary merge(const Job& job, const Members& members, const ChildProcesses& children,
              const std::string& folder, bool ended, std::string& model_of) {
  Summary all = summary_of(job);
  std::optional<Summary> told;
  all.stop_reason = interrupted() ? StopReason::interrupted : StopReason::failed;
  std::string failures;
  double utilisation = 0;
  std::size_t learners = 0;
  for (Rank rank = 0; rank < members.size(); ++rank) {
    const std::string own = node_folder(folder, members[rank]);
    const ChildExit& end = *children.end(rank);
    const auto read = read_summary(own);
    const auto one = read && end.signal == 0 ? *read : std::nullopt;
    const bool by_us = ended && (end.code == 130 || end.signal != 0);
    if (!end.done() && !by_us)
      failures += fmt::format("{}{}: {}", failures.empty() ? "" : "\n", children.name(rank),
                              one && !one->failure.empty() ? one->failure : to_string(end));
    if (!one) continue;
    all.wan_bytes += one->wan_bytes;
    all.wan_messages += one->wan_messages;
    all.time_s = std::max(all.time_s, one->time_s);
    all.real_s = std::max(all.real_s, one->real_s);
    all.rounds = std::max(all.rounds, one->rounds);
    all.statistics.add(one->statistics);
    if (one->pace) {
      if (!all.pace) all.pace.emplace();
      all.pace->steps += one->pace->steps;
      all.pace->overruns += one->pace->overruns;
    }
    // Whoever had the models scored knows of the target: a server, which may be no worker.
    if (end.done() && one->time_to_target_s) all.time_to_target_s = one->time_to_target_s;
    if (!members[rank].is(Role::worker)) continue;
    utilisation += one->compute_utilisation;
    ++learners;
    if (end.done() && !told) {
      told = one;
      model_of = own;
    }
  }
  if (learners > 0) all.compute_utilisation = utilisation / double(learners);
  all.failure = failures;
  if (!told) return all;
  all.rounds = told->rounds;
  all.final_accuracy = told->final_accuracy;
  all.final_loss = told->final_loss;
  all.params_hash = told->params_hash;
  all.stop_reason = all.time_to_target_s ? StopReason::target : told->stop_reason;
  if (failures.empty()) all.failure = told->failure;
  return all;
}

// The lines of all nodes' metrics.jsonl in the order of time, then of rank.
Status merge_metrics(const Members& members, const std::string& folder) {
  struct Line {
    double time;
    Rank rank;
    std::string text;
  };
  std::vector<Line> lines;
  for (Rank rank = 0; rank < members.size(); ++rank) {
    const auto bytes = read_file(node_folder(folder, members[rank]) + "/metrics.jsonl");
    if (!bytes) continue;  // it never began
    std::string_view rest(reinterpret_cast<const char*>(bytes->data()), bytes->size());
    while (!rest.empty()) {
      const std::size_t end = std::min(rest.find('\n'), rest.size());
      const auto line = rest.substr(0, end);
      rest.remove_prefix(std::min(end + 1, rest.size()));
      const auto object = nlohmann::json::parse(line, nullptr, false);
      if (object.is_object() && object.contains("time_s") && object["time_s"].is_number())
        lines.push_back({object["time_s"], rank, std::string(line)});
    }
  }
  std::stable_sort(lines.begin(), lines.end(), [](const Line& a, const Line& b) {
    return std::tie(a.time, a.rank) < std::tie(b.time, b.rank);
  });
  std::string text;
  for (const Line& line : lines) text += line.text + "\n";
  return write_atomically(folder + "/metrics.jsonl", text);
}

Status copy_model(const std::string& from, const std::string& to) {
  std::error_code code;
  std::filesystem::copy_file(from, to, std::filesystem::copy_options::overwrite_existing, code);
  if (code) return unavailable(fmt::format("cannot copy {} to {}: {}", from, to, code.message()));
  return Ok{};
}

std::string lab_file(const LaunchOptions& options) { return options.folder + "/lab.json"; }

// What a run over an emulated WAN adds to the summary: the router's figures, or its end.
void add_lab(Summary& summary, Lab& lab) {
  if (lab.runs()) {
    summary.lab = lab.stop();
    return;
  }
  summary.failure += (summary.failure.empty() ? "" : "\n") + lab.failure();
}

Result<std::unique_ptr<Lab>> lab_for(const Job& job, const LaunchOptions& options) {
  if (!options.lab) return std::unique_ptr<Lab>{};
  return Lab::start(job, {options.program, options.arguments, lab_file(options), options.line});
}

}  // namespace

int exit_code(std::span<const ChildExit> ends, bool interrupted) {
  if (interrupted) return 130;
  const auto own = std::find_if(ends.begin(), ends.end(), ends_all);
  if (own != ends.end()) return own->code;
  int done = -1;
  for (const ChildExit& end : ends)
    if (end.done()) done = std::max(done, end.code);
  return done >= 0 ? done : 3;
}

Result<LaunchResult> launch(const Job& job, const LaunchOptions& options) {
  LH_TRY(RunFolder::check(options.folder, job, options.existing));
  if (options.existing == ExistingFolder::resume) {
    auto over = finished_summary(options.folder);
    if (!over) return over.error();
    if (*over) return LaunchResult{**over, exit_code(**over)};
  }
  if (options.lab) LH_TRY(Lab::possible(job));
  if (const std::string last = last_failure(lab_file(options)); options.line && !last.empty())
    options.line("lab", true, "note: " + last);
  auto folder = RunFolder::open(options.folder, job, options.existing);
  if (!folder) return folder.error();
  const Members members = job.members();
  const auto lab = lab_for(job, options);
  if (!lab) return lab.error();
  ChildProcesses children(options.line);
  LH_TRY(start_nodes(children, job, command_of(options, members), lab->get()));
  const bool ended = wait_for_nodes(children, lab->get());
  std::string model_of;
  Summary summary = merge(job, members, children, folder->path(), ended, model_of);
  if (*lab) add_lab(summary, **lab);
  LH_TRY(merge_metrics(members, folder->path()));
  if (std::filesystem::exists(model_of + "/model.pt"))  // own learners save none
    LH_TRY(copy_model(model_of + "/model.pt", folder->file("model.pt")));
  LH_TRY(write_atomically(folder->file("summary.json"), to_json(summary).dump(2) + "\n"));
  const int code = exit_code(children.ends(), interrupted());
  // Only whoever had the models scored ends by itself with the target reached.
  const bool reached = code == 1 && summary.stop_reason == StopReason::target;
  return LaunchResult{summary, reached ? 0 : code};
}

}  // namespace longhaul::run
