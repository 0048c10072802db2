#pragma once
// What compare and plan do with the runs of an earlier command in their folder.
#include <string>
#include <vector>

#include "longhaul/run/job/job.h"
#include "longhaul/run/run_pool.h"

namespace longhaul::cli {

// Whether the folder holds a run, finished or not.
bool has_run(const std::string& folder);
// Whether it holds a run of this job, or of one from which that may go on: only [stop], [report]
// and [run] may differ.
bool can_go_on(const std::string& folder, const run::Job&);

// run::run_all(), but runs whose checkpoint cannot be continued, of an older version or damaged,
// begin anew and say so: such a run can be made again. Ends as of run_all().
std::vector<run::PoolEnd> run_all_or_anew(const std::vector<run::PoolRun>&,
                                          const run::PoolOptions&);

}  // namespace longhaul::cli
