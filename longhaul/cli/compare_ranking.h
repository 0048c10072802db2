#pragma once
// Ranks compared combinations: which is best, by how much, and whether their seeds prove it.
//
// With a target, the combination that reaches it first is best, by the median over the seeds. A
// combination reaches the target if more than half of its seeds do; the others are ordered by
// score. Without a target, the score at the end of the budget decides; without scores (phantom
// models), the time. If these are equal, fewer bytes between sites are better, and then the label
// decides, as in a report. report/seed_ranges.h decides whether the first is ahead of another or
// ties with it.
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
  // Results of the runs, in addition to the standing:
  double computing = 0, rounds = 0, real_s = 0;               // medians
  std::optional<double> cost = {};                            // median; absent without prices
  report::Difference from_first = report::Difference::clear;  // from the first ranked group
};

// Groups the runs by label and orders the groups, best first.
std::vector<RankedGroup> ranked(const std::vector<std::pair<std::string, run::Summary>>& runs,
                                const run::CostTable& prices);
// Returns true if the first group is the winner: it reached the target (or there is none), did not
// diverge, and is clearly ahead of all others.
bool has_winner(const std::vector<RankedGroup>&);
// Returns the verdict: "diloco is first: 97 % in 27.0 s ...; 1.44 times sooner than fedavg ...",
// "diloco and fedavg tie: ...", or that one seed cannot decide; "" if there is no verdict.
std::string verdict(const std::vector<RankedGroup>&);
// Returns the table, best first.
std::string ranking_text(const std::string& name, const std::vector<RankedGroup>&,
                         const run::CostTable& prices);
nlohmann::ordered_json to_json(const RankedGroup&);

struct EmittedTask {
  std::string name;                  // "fedavg-ring"
  std::vector<std::string> command;  // arguments without the program
};

// Returns the tasks in a format. `kind`: "parallel": one shell command per line, for GNU parallel
// or xargs. "slurm": a job array for sbatch. "k8s": a Kubernetes Job per run; the user must set the
// image and the volume of the runs.
std::string emitted_tasks(const std::string& kind, const std::string& name,
                          const std::string& program, const std::vector<EmittedTask>&);

}  // namespace longhaul::cli
