#pragma once
// The jobs of one `longhaul compare`: the job file once for each combination of kinds, swept values
// and seeds.
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "longhaul/cli/cli.h"
#include "longhaul/cli/run_options.h"
#include "longhaul/run/interrupt.h"
#include "longhaul/run/job/dump.h"
#include "longhaul/run/job/job.h"
#include "longhaul/run/run_folder.h"
#include "longhaul/run/run_pool.h"

namespace longhaul::cli {

// The varied values. An empty list of kinds means the job's own kind. The only element "all" means
// every kind of the table; keys of the job file that a kind lacks are then omitted for it.
struct CompareAxes {
  std::vector<std::string> syncs, overlays, transfers, codecs;
  std::vector<std::string> sweeps;  // "sync.steps=5,10"
  std::uint64_t seeds = 1;
  bool lenient = false;  // named kinds also omit keys that they lack
  // Budget of every run: virtual hours, or samples of all sites in training sets. With either,
  // max_rounds is ignored. A [stop] with either ignores max_rounds unless the job file sets it.
  std::optional<double> hours, epochs;

  bool any_all() const {
    for (const auto* kinds : {&syncs, &overlays, &transfers, &codecs})
      if (*kinds == std::vector<std::string>{"all"}) return true;
    return false;
  }
};

struct ComparedJob {
  std::string label;  // row name: "diloco", "diloco-ring-steps=5"
  std::string path;   // folder within the comparison's: "diloco", "diloco/seed-2"
  run::Job job;
};

struct SkippedJob {
  std::string label, why;
};

struct Comparison {
  std::string name;  // name of the job
  std::vector<ComparedJob> jobs;
  std::vector<SkippedJob> skipped;   // impossible combinations, with the reason
  std::vector<std::string> dropped;  // "[sync] steps: not for bsp, asp"
  bool equal_budget = false;         // runs end by time or samples only
};

// Maximum number of runs; more is an Error.
inline constexpr std::size_t kMaxComparedJobs = 20000;

// Returns a folder name. Invalid characters become "_".
std::string run_path(std::string label);

// Returns every combination. Error: an unknown kind, a key of [sync] that only some of the named
// kinds have, an invalid sweep, or the first reason if no combination is possible.
Result<Comparison> compared_jobs(const RunOptions&, const CompareAxes&);

// Returns true if the folder holds a run, finished or not.
inline bool has_run(const std::string& folder) {
  std::error_code code;
  return std::filesystem::exists(folder + "/job.toml", code);
}

// Returns true if the folder holds a run that this job can continue. Only [stop], [report] and
// [run] may differ.
inline bool can_go_on(const std::string& folder, const run::Job& job) {
  if (!has_run(folder)) return false;
  const auto before = run::job_of_run(folder);
  return before && !run::difference(*before, job, /*resumes=*/true);
}

// Behaves as run::run_all(), but starts a run again, with a message, if its checkpoint cannot be
// continued because it is damaged or of another version. Prints the tracebacks of failed loops that
// are not in `shown`, and adds them.
inline std::vector<run::PoolEnd> run_all_or_anew(const std::vector<run::PoolRun>& runs,
                                                 const run::PoolOptions& options,
                                                 std::set<std::string>& shown) {
  auto ends = run::run_all(runs, options);
  for (const run::PoolEnd& end : ends)
    if (!end.trace.empty() && shown.insert(end.trace).second) fmt::print(stderr, "{}", end.trace);
  std::vector<run::PoolRun> again;
  std::vector<std::size_t> of;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (!runs[i].resume || ends[i].exit.code != kBadUsage ||
        ends[i].message.find("checkpoint") == std::string::npos)
      continue;
    fmt::print(stderr, "{}: begins anew: {}\n", runs[i].label, ends[i].message);
    again.push_back(runs[i]);
    again.back().resume = false;
    again.back().force = true;
    of.push_back(i);
  }
  if (again.empty() || run::interrupted()) return ends;
  run::PoolOptions rest = options;
  rest.done_before = 0;
  const auto done = run::run_all(again, rest);
  for (std::size_t k = 0; k < of.size(); ++k) ends[of[k]] = done[k];
  return ends;
}

}  // namespace longhaul::cli
