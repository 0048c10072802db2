#pragma once
// The jobs that one `longhaul compare` runs: the job file once for each combination of kinds, swept
// values and seeds.
#include <optional>
#include <string>
#include <vector>

#include "longhaul/cli/run_options.h"

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

}  // namespace longhaul::cli
