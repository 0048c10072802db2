#include "longhaul/run/launch.h"

#include <algorithm>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <map>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "longhaul/run/atomic_file.h"
#include "longhaul/run/checkpoint.h"
#include "longhaul/run/interrupt.h"
#include "longhaul/run/job/json.h"
#include "longhaul/run/job/parts.h"
#include "longhaul/run/lab.h"
#include "longhaul/run/model_files.h"
#include "longhaul/run/nodes.h"
#include "longhaul/run/processes.h"
#include "longhaul/run/run_log.h"
#include "longhaul/run/samples_file.h"
#include "longhaul/run/sockets.h"
#include "longhaul/run/status_file.h"
#include "longhaul/run/torch_library.h"

namespace longhaul::run {
namespace {

constexpr std::chrono::seconds kAfterNodes{5};  // added to [net] stop_within_s

// Returns the command of each node's `longhaul site`. While `force` is true, a node replaces the
// earlier run in its folder. Without it, the node itself decides whether to begin, resume or
// rejoin.
NodeCommand command_of(const LaunchOptions& options, const Members& members, const bool& force) {
  return {options.program,
          "site",
          options.arguments,
          [&](Rank rank) {
            std::vector<std::string> words = {"--out", node_folder(options.folder, members[rank])};
            if (force) words.push_back("--force");
            if (options.lab) words.push_back("--faults-are-made");
            return words;
          },
          options.insecure,
          options.run_in_copy};
}

bool has_checkpoint(const LaunchOptions& options, const Members& members) {
  return std::any_of(members.begin(), members.end(), [&](const Member& member) {
    return Checkpoints(node_folder(options.folder, member) + "/checkpoints").any();
  });
}

std::string being_written(const std::string& folder, const Member& member) {
  const auto status = read_status(node_folder(folder, member));
  return status && status->state == "writing" ? status->waits_for : "";
}

// The nodes' folders that hold the run's models; "": none.
struct ModelsOf {
  std::string best_of, last_of;
};

void add_figures(Summary& all, const Summary& one) {
  Participation& sum = all.participation;
  if (sum.members == 0) sum.live = one.participation.live;
  sum.members = one.participation.members;
  sum.live = std::min(sum.live, one.participation.live);
  sum.changes = std::max(sum.changes, one.participation.changes);
  // The senior worker's values.
  sum.left_out = std::max(sum.left_out, one.participation.left_out);
  sum.missed = std::max(sum.missed, one.participation.missed_by(one.rounds));
  sum.since = std::max(sum.since, one.rounds);
}

// Returns true if a process ended by its own code, not as a node ends: by a signal that nobody
// sends from outside, or with an exit code before its status said so. A loop that crashes or calls
// os._exit() ends like that. False for an exit code that ends all nodes anyway.
bool is_fault(const ChildExit& end, pid_t process, const std::string& node_folder) {
  constexpr int kFromOutside[] = {SIGKILL, SIGTERM, SIGINT, SIGHUP};
  if (end.signal != 0) return std::ranges::find(kFromOutside, end.signal) == std::end(kFromOutside);
  if (ends_all(end)) return false;
  const auto status = read_status(node_folder);
  if (status && status->process == process) return status->state != "ended";
  const auto over = finished_summary(node_folder);
  return end.code == 0 && (!over || !*over);
}

// The nodes whose processes have ended by their own code and were not back at the end.
class NodeFaults {
 public:
  // All arguments must outlive this object.
  NodeFaults(const Job& job, const Members& members, const ChildProcesses& children,
             const Restarts& restarts, const std::string& folder)
      : job_(job), members_(members), children_(children), restarts_(restarts), folder_(folder) {}

  // Looks at the processes that have ended since the last call.
  void look() {
    for (Rank rank = 0; rank < members_.size(); ++rank) {
      const auto& end = children_.end(rank);
      const pid_t process = children_.process(rank);
      if (!end || job_.leaves_out(members_[rank].site) || seen_[rank] == process) continue;
      seen_[rank] = process;
      if (is_fault(*end, process, node_folder(folder_, members_[rank])))
        faults_[rank] = to_string(*end) +
                        (end->signal == 0 ? "" : fmt::format(" ({})", strsignal(end->signal)));
      else if (end->done())
        faults_.erase(rank);
    }
  }

  bool has(Rank rank) const { return faults_.contains(rank); }
  std::string text(Rank rank) const {
    const unsigned count = std::min(restarts_.count(rank), restarts_.most());
    const std::string again =
        count == 0 ? ""
                   : fmt::format("; started again {} of {} times, and not back at the end", count,
                                 restarts_.most());
    return fmt::format("{} in the middle of the run, by its own code{}: see what it printed",
                       faults_.at(rank), again);
  }

 private:
  const Job& job_;
  const Members& members_;
  const ChildProcesses& children_;
  const Restarts& restarts_;
  const std::string& folder_;
  std::map<Rank, pid_t> seen_;  // the last process that has ended
  std::map<Rank, std::string> faults_;
};

// Returns the exits that decide the exit code. A node that could not be restarted counts as lost,
// because the others have continued.
std::vector<ChildExit> ends_of(const ChildProcesses& children, const Restarts& restarts,
                               const NodeFaults& faults) {
  std::vector<ChildExit> ends;
  for (Rank rank = 0; rank < children.size(); ++rank) {
    const ChildExit& end = *children.end(rank);
    if (restarts.count(rank) == 0 || !ends_all(end)) ends.push_back(end);
    if (faults.has(rank)) ends.push_back({.code = 1});
  }
  return ends;
}

// Merges all nodes' ledgers; nullopt if none has one.
std::optional<SampleCounts> samples_of(const Job& job, const Members& members,
                                       const ChildProcesses& children, const NodeFaults& faults,
                                       const std::string& folder, bool ended) {
  std::vector<SampleLedger::OfNode> ledgers;
  for (Rank rank = 0; rank < members.size(); ++rank) {
    if (job.leaves_out(members[rank].site)) continue;
    auto ledger = read_samples(node_folder(folder, members[rank]) + "/samples.bin");
    if (!ledger || !*ledger) continue;
    const bool is_lost = (!children.end(rank)->done() || faults.has(rank)) && !ended;
    ledgers.push_back({rank, std::move(**ledger), is_lost});
  }
  if (ledgers.empty()) return std::nullopt;
  return SampleLedger::joined(std::move(ledgers)).counts();
}

// Merges the summaries of all nodes: see launch.h.
Summary merge(const Job& job, const Members& members, const ChildProcesses& children,
              const NodeFaults& faults, const std::string& folder, bool ended, ModelsOf& files) {
  Summary all = summary_of(job);
  std::optional<Summary> told;
  all.stop_reason = interrupted() ? StopReason::interrupted : StopReason::failed;
  std::string failures;
  double utilisation = 0;
  std::size_t learners = 0;
  for (Rank rank = 0; rank < members.size(); ++rank) {
    const std::string own = node_folder(folder, members[rank]);
    const ChildExit& end = *children.end(rank);
    if (job.leaves_out(members[rank].site)) continue;  // files of an earlier session
    const auto read = read_summary(own);
    const auto one = read && end.signal == 0 ? *read : std::nullopt;
    const bool by_us = ended && (end.code == 130 || end.signal != 0);
    if (faults.has(rank) || (!end.done() && !by_us))
      failures += fmt::format("{}{}: {}", failures.empty() ? "" : "\n", children.name(rank),
                              faults.has(rank)               ? faults.text(rank)
                              : one && !one->failure.empty() ? one->failure
                                                             : to_string(end));
    if (!one) {  // killed: its status, written once a second, remains
      if (const auto last = read_status(own)) {
        all.wan_bytes += last->wan_bytes;
        all.wan_messages += last->wan_messages;
      }
      continue;
    }
    all.wan_bytes += one->wan_bytes;
    all.wan_messages += one->wan_messages;
    all.time_s = std::max(all.time_s, one->time_s);
    all.real_s = std::max(all.real_s, one->real_s);
    all.rounds = std::max(all.rounds, one->rounds);
    all.statistics.add(one->statistics);
    add_figures(all, *one);
    if (one->pace) {
      if (!all.pace) all.pace.emplace();
      all.pace->steps += one->pace->steps;
      all.pace->overruns += one->pace->overruns;
    }
    // The node that had the models scored knows the target's time first.
    if (end.done() && one->time_to_target_s &&
        (!all.time_to_target_s || *one->time_to_target_s < *all.time_to_target_s)) {
      all.time_to_target_s = one->time_to_target_s;
      all.target_after_s = one->target_after_s;
    }
    const bool has_best = std::filesystem::exists(own + "/best." + model_extension(job));
    if (one->best && has_best && is_better(job, {one->best->loss, one->best->accuracy}, all.best)) {
      all.best = one->best;
      files.best_of = own;
    }
    for (const std::string& warning : one->warnings)
      if (std::ranges::find(all.warnings, warning) == all.warnings.end() &&
          all.warnings.size() < RunLog::kMostWarnings)
        all.warnings.push_back(warning);
    if (!members[rank].is(Role::worker)) continue;
    utilisation += one->compute_utilisation;
    ++learners;
    if (files.last_of.empty() || (end.done() && !told)) files.last_of = own;
    if (end.done() && !told) told = one;
  }
  if (const auto samples = samples_of(job, members, children, faults, folder, ended))
    all.samples = *samples;
  if (learners > 0) all.compute_utilisation = utilisation / double(learners);
  all.failure = failures;
  if (!told) return all;
  all.rounds = told->rounds;
  all.final_accuracy = told->final_accuracy;
  all.final_loss = told->final_loss;
  all.site_scores = told->site_scores;
  all.params_hash = told->params_hash;
  all.stop_reason = all.time_to_target_s ? StopReason::target : told->stop_reason;
  if (failures.empty()) all.failure = told->failure;
  return all;
}

// Merges the lines of all nodes' metrics.jsonl, ordered by time, then by rank.
Status merge_metrics(const Members& members, const std::string& folder) {
  struct Line {
    double time;
    Rank rank;
    std::string text;
  };
  std::vector<Line> lines;
  for (Rank rank = 0; rank < members.size(); ++rank) {
    const auto all = read_text(node_folder(folder, members[rank]) + "/metrics.jsonl");
    if (!all) continue;  // the node never began
    std::string_view rest = *all;
    while (!rest.empty()) {
      const std::size_t end = std::min(rest.find('\n'), rest.size());
      const auto line = rest.substr(0, end);
      rest.remove_prefix(std::min(end + 1, rest.size()));
      const auto object = parse_json(line);
      if (!object.is_object() || !object.contains("time_s") || !object["time_s"].is_number())
        continue;
      const bool heard = object.value("kind", "") == "score" && object.value("rank", rank) != rank;
      if (!heard)  // otherwise its own node has written the line
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

// Copies best.pt, last.pt and model.pt of the run. model.pt is the best model if the run has
// reached its target, else the last.
Status copy_models(const Job& job, const ModelsOf& from, const std::string& to, bool reached,
                   bool& is_best) {
  const std::string best = "/best." + model_extension(job), last = "/last." + model_extension(job);
  const bool has_best = std::filesystem::exists(from.best_of + best);
  const bool has_last = std::filesystem::exists(from.last_of + last);
  if (has_best) LH_TRY(copy_into_place(from.best_of + best, to + best));
  if (has_last) LH_TRY(copy_into_place(from.last_of + last, to + last));
  std::error_code code;
  if (has_last && std::filesystem::exists(from.last_of + "/data.json", code))
    LH_TRY(copy_into_place(from.last_of + "/data.json", to + "/data.json"));
  is_best = reached && has_best;
  if (!is_best && !has_last) return Ok{};
  return copy_into_place(to + (is_best ? best : last), to + "/model." + model_extension(job));
}

// Writes the summary, unless this attempt failed before it got further than the previous one.
Status write_summary(const std::string& folder, const Summary& summary) {
  const auto before = read_summary(folder);
  const bool further = !before || !*before || summary.rounds > (**before).rounds;
  if (summary.stop_reason == StopReason::failed && !further) return Ok{};
  return write_atomically(folder + "/summary.json", summary_text(summary));
}

std::string lab_file(const LaunchOptions& options) { return options.folder + "/lab.json"; }

// Adds the emulated WAN's part to the summary: the router's figures, or why it ended.
void add_lab(Summary& summary, Lab& lab) {
  if (lab.runs()) {
    summary.lab = lab.stop();
    return;
  }
  summary.failure += (summary.failure.empty() ? "" : "\n") + lab.failure();
}

// The job's faults, applied to processes.
class Faults {
 public:
  // All arguments must outlive this object.
  Faults(const Job& job, const LaunchOptions& options, ChildProcesses& children,
         NodeProcesses& nodes, Restarts& restarts)
      : faults_(job), options_(options), children_(children), nodes_(nodes), restarts_(restarts) {}

  // Performs the faults that are due. Returns true if a process must still be restarted.
  Result<bool> look() {
    if (faults_.empty()) return false;
    if (!zero_) zero_ = run_began();
    if (!zero_) return false;
    for (const auto& act : faults_.due(Clock::now() - *zero_)) LH_TRY(perform(act));
    return faults_.will_start() && !children_.all_ended();
  }

 private:
  using Clock = std::chrono::steady_clock;
  using What = ProcessFaults::Act::What;

  // Returns the zero of the nodes' times, from their status files; nothing while the nodes still
  // connect. In a resumed run the zero is before this process, and earlier faults are skipped.
  std::optional<Clock::time_point> run_began() {
    const auto statuses = read_statuses(options_.folder);
    if (!statuses) return std::nullopt;
    for (const NodeStatus& status : *statuses) {
      if (status.time_s <= 0 || status.written_s < started_s_) continue;
      const double age_s = std::max(0.0, unix_time() - status.written_s);
      const auto zero = Clock::now() - from_seconds(status.time_s + age_s);
      if (options_.existing == ExistingFolder::resume) (void)faults_.due(started_ - zero);
      return zero;
    }
    return std::nullopt;
  }

  Status perform(const ProcessFaults::Act& act) {
    const char* const text = act.what == What::kills     ? "kills"
                             : act.what == What::stops   ? "stops"
                             : act.what == What::goes_on ? "lets go on"
                                                         : "starts again";
    bool done = false;
    for (const Rank rank : act.ranks) {
      const bool lives = !children_.end(rank).has_value();
      if (act.what == What::kills) restarts_.leave(rank);
      if (lives == (act.what == What::starts)) continue;
      done = true;
      if (act.what == What::starts)
        LH_TRY(nodes_.restart(rank));
      else
        children_.signal(rank, act.what == What::kills   ? SIGKILL
                               : act.what == What::stops ? SIGSTOP
                                                         : SIGCONT);
    }
    if (done && options_.line)
      options_.line("launch", true,
                    fmt::format("fault at {:g} s: {} {}", seconds(act.at), text, act.site));
    return Ok{};
  }

  ProcessFaults faults_;
  const LaunchOptions& options_;
  ChildProcesses& children_;
  NodeProcesses& nodes_;
  Restarts& restarts_;
  const Clock::time_point started_ = Clock::now();
  const double started_s_ = unix_time();
  std::optional<Clock::time_point> zero_;
};

// Removes the new folder of a job that the nodes refuse before the first round: the corrected job
// can be launched there.
void discard_unless_begun(const RunFolder& folder, const Members& members) {
  std::vector<std::string> nodes;
  for (const Member& member : members) {
    nodes.push_back(node_folder(folder.path(), member));
    std::error_code code;
    if (!std::filesystem::exists(nodes.back(), code)) continue;
    const auto status = read_status(nodes.back());
    if (!status || status->time_s > 0 ||
        std::filesystem::exists(nodes.back() + "/checkpoints", code))
      return;
  }
  folder.discard(nodes);
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
    LH_LET(over, nothing_left(options.folder, job));
    if (over) return LaunchResult{*over, exit_code(*over)};
  }
  const InterruptGuard guard;  // until all is written
  LH_TRY(fits_frames(job, options.lab));
  if (options.lab) LH_TRY(Lab::possible(job));
  if (const std::string last = last_failure(lab_file(options)); options.line && !last.empty())
    options.line("lab", true, "note: " + last);
  LH_LET(folder, RunFolder::open(options.folder, job, options.existing));
  const Members members = job.members();
  LH_LET(lab, Lab::start_if(options.lab, job,
                            {options.program, options.arguments, lab_file(options), options.line}));
  ChildProcesses children(options.line);
  bool force = options.existing == ExistingFolder::force;
  const NodeCommand command = command_of(options, members, force);
  NodeProcesses nodes(children, job, command, lab.get());
  if (options.run_in_copy) preload_torch_library(job);
  LH_TRY(nodes.start_all());
  force = false;  // a node that is started again continues
  const bool lets_return = entry_with(*job.sync.entry, job.sync.settings).traits.lets_return;
  Restarts restarts(members.size(), options.max_restarts,
                    lets_return ? Restarts::Mode::alone : Restarts::Mode::together);
  Faults job_faults(job, options, children, nodes, restarts);
  NodeFaults faults(job, members, children, restarts, folder.path());
  const auto note = [&](const std::string& text) {
    if (options.line) options.line("launch", true, text);
  };
  const auto look = [&] {
    if (const auto made = folder.restore(); made && *made)
      note(folder.path() + ": the run's folder was removed, and is made again");
    faults.look();
    return job_faults.look();
  };
  const RestartPlan plan{nodes, restarts, [&] { return has_checkpoint(options, members); }, note,
                         look};
  const auto writes = [&](std::size_t i) { return being_written(options.folder, members[i]); };
  const EndPatience patience{kAfterNodes + from_seconds(job.net.stop_within_s), writes, note};
  const bool ended = wait_for_nodes(children, lab.get(), &plan, patience);
  (void)folder.restore();
  faults.look();
  ModelsOf models;
  Summary summary = merge(job, members, children, faults, folder.path(), ended, models);
  if (lab) add_lab(summary, *lab);
  LH_TRY(kept_at_the_end(merge_metrics(members, folder.path())));
  LH_TRY(kept_at_the_end(copy_models(job, models, folder.path(),
                                     summary.time_to_target_s.has_value(), summary.model_is_best)));
  // A resume that the nodes refuse is not the end of the run: its summary stays.
  const bool refused = options.existing == ExistingFolder::resume &&
                       std::ranges::any_of(children.ends(), [](const ChildExit& end) {
                         return end.signal == 0 && end.code == 2;
                       });
  if (!refused) LH_TRY(kept_at_the_end(write_summary(folder.path(), summary)));
  const int code = exit_code(ends_of(children, restarts, faults), interrupted());
  if (code == 2) discard_unless_begun(folder, members);
  return LaunchResult{summary, code};
}

}  // namespace longhaul::run
