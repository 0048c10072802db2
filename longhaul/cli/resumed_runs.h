#pragma once
// What compare and plan do with the runs of an earlier command in their folder.
#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "longhaul/cli/cli.h"
#include "longhaul/cli/output.h"
#include "longhaul/run/interrupt.h"
#include "longhaul/run/job/dump.h"
#include "longhaul/run/job/job.h"
#include "longhaul/run/run_folder.h"
#include "longhaul/run/run_pool.h"

namespace longhaul::cli {

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
