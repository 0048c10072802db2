#pragma once
// The jobs that one `longhaul compare` runs: the job file once for each combination of kinds.
#include <string>
#include <vector>

#include "longhaul/cli/run_options.h"

namespace longhaul::cli {

struct ComparedJob {
  std::string label;  // "diloco", "diloco-ring": names its folder and its row
  run::Job job;
};

// Every combination, or an Error about the first impossible one: unknown kinds first, then keys of
// [sync] that only some of the kinds have. `overlays` empty: the job's own.
Result<std::vector<ComparedJob>> compared_jobs(const RunOptions&,
                                               const std::vector<std::string>& syncs,
                                               const std::vector<std::string>& overlays);

}  // namespace longhaul::cli
