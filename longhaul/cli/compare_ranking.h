#pragma once
// Which of several compared combinations is best, by how much, and whether their seeds tell.
//
// With a target: who reaches it first, by the median over the seeds; a combination counts as
// reaching it if more than half of its seeds do. Those that do not are ordered by score. Without a
// target: by score at the end of the budget; without scores (phantom models): by time. Where these
// are equal, fewer bytes between sites are better, and then the label decides, as in a report.
// Whether the first is ahead of another or ties with it is for report/seed_ranges.h to say.
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "longhaul/report/seed_ranges.h"
#include "longhaul/run/job/tables.h"
#include "longhaul/run/summary.h"

namespace longhaul::cli {

// The finished runs of one combination.
struct RankedGroup : report::Standing {
  std::string label;
  std::vector<run::Summary> runs = {};
  // What follows from them, beside the standing:
  double computing = 0, rounds = 0, real_s = 0;               // medians
  std::optional<double> cost = {};                            // median; absent without prices
  report::Difference from_first = report::Difference::clear;  // of the groups it is ranked with
};

// Groups the runs by label and orders the groups, the best first.
std::vector<RankedGroup> ranked(const std::vector<std::pair<std::string, run::Summary>>& runs,
                                const run::CostTable& prices);
// Whether the first is the winner: it reached the target, or there is none, it did not diverge, and
// the seeds tell it from all others.
bool has_winner(const std::vector<RankedGroup>&);
// "diloco is first: 97 % in 27.0 s ...; 1.44 times sooner than fedavg ...", "diloco and fedavg tie:
// ...", or that one seed cannot tell; "" if there is nothing to say.
std::string verdict(const std::vector<RankedGroup>&);
// The table, the best first.
std::string ranking_text(const std::string& name, const std::vector<RankedGroup>&,
                         const run::CostTable& prices);
nlohmann::ordered_json to_json(const RankedGroup&);

struct EmittedTask {
  std::string name;                  // "fedavg-ring"
  std::vector<std::string> command;  // without the program
};

// `kind`: "parallel": a shell command a line, for GNU parallel or xargs. "slurm": a job array for
// sbatch. "k8s": one Job of Kubernetes a run; the image and the volume of the runs are to be set.
std::string emitted_tasks(const std::string& kind, const std::string& name,
                          const std::string& program, const std::vector<EmittedTask>&);

}  // namespace longhaul::cli
