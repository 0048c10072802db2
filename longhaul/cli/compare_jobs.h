#pragma once
// The jobs that one `longhaul compare` runs: the job file once for each combination of kinds, swept
// values and seeds.
#include <filesystem>
#include <optional>
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

// What varies. Empty lists of kinds: the job's own. The only element "all": every kind of the
// table; a key of the job file that a kind lacks is then left out for it.
struct CompareAxes {
  std::vector<std::string> syncs, overlays, transfers, codecs;
  std::vector<std::string> sweeps;  // "sync.steps=5,10"
  std::uint64_t seeds = 1;
  bool lenient = false;  // a key that a kind lacks is left out for named kinds, too
  // The budget of every run: virtual hours, or samples of all sites in training sets. With either
  // rounds end no run; with a [stop] that has either they do if the job file says max_rounds.
  std::optional<double> hours, epochs;

  bool any_all() const {
    for (const auto* kinds : {&syncs, &overlays, &transfers, &codecs})
      if (*kinds == std::vector<std::string>{"all"}) return true;
    return false;
  }
};

struct ComparedJob {
  std::string label;  // "diloco", "diloco-ring-steps=5": names its row
  std::string path;   // of its folder, within that of the comparison: "diloco", "diloco/seed-2"
  run::Job job;
};

struct SkippedJob {
  std::string label, why;
};

struct Comparison {
  std::string name;  // of the job
  std::vector<ComparedJob> jobs;
  std::vector<SkippedJob> skipped;   // combinations that no job can have, with the reason
  std::vector<std::string> dropped;  // "[sync] steps: not for bsp, asp"
  bool equal_budget = false;         // time or samples end all runs
};

// At most this many runs; more is an Error that says how many were asked for.
inline constexpr std::size_t kMaxComparedJobs = 20000;

// Every combination. Error: an unknown kind, a key of [sync] that only some of the kinds named
// have, a sweep that is none, or the first reason if no combination is left.
Result<Comparison> compared_jobs(const RunOptions&, const CompareAxes&);

// Whether the folder holds a run, finished or not.
inline bool has_run(const std::string& folder) {
  std::error_code code;
  return std::filesystem::exists(folder + "/job.toml", code);
}

// Whether it holds a run of this job, or of one from which that may go on: only [stop], [report]
// and [run] may differ.
inline bool can_go_on(const std::string& folder, const run::Job& job) {
  if (!has_run(folder)) return false;
  const auto before = run::job_of_run(folder);
  return before && !run::difference(*before, job, /*resumes=*/true);
}

// run::run_all(), but runs whose checkpoint cannot be continued, of an older version or damaged,
// begin anew and say so: such a run can be made again. Ends as of run_all().
inline std::vector<run::PoolEnd> run_all_or_anew(const std::vector<run::PoolRun>& runs,
                                                 const run::PoolOptions& options) {
  auto ends = run::run_all(runs, options);
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
