#pragma once
// Which of several compared combinations is best, and by how much.
//
// With a target: who reaches it first, by the median over the seeds; a combination counts as
// reaching it if more than half of its seeds do. Those that do not are ordered by score. Without a
// target: by score at the end of the budget; without scores (phantom models): by time. Where these
// are equal, fewer bytes between sites are better, and then the label decides, as in a report.
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "longhaul/run/job/tables.h"
#include "longhaul/run/summary.h"

namespace longhaul::cli {

// Median, least and most over the seeds of one combination.
struct Spread {
  double median = 0, min = 0, max = 0;
};

// The finished runs of one combination.
struct RankedGroup {
  std::string label;
  std::vector<run::Summary> runs = {};
  // What follows from them:
  std::size_t reached = 0;  // runs that reached the target
  std::optional<Spread> target =
      {};            // time to target of those, s; absent: the group does not reach it
  Spread time = {};  // of the whole run, s
  std::optional<Spread> score = {};  // accuracy, or bits per byte, or loss
  bool lower_is_better = false;      // of the score
  double wan_bytes = 0, computing = 0, rounds = 0, real_s = 0;  // medians
  std::optional<double> cost = {};                              // median; absent without prices
};

// Groups the runs by label and orders the groups, the best first.
std::vector<RankedGroup> ranked(const std::vector<std::pair<std::string, run::Summary>>& runs,
                                const run::CostTable& prices);
// Whether the first is the winner: it reached the target, or there is none, and nothing diverged.
bool has_winner(const std::vector<RankedGroup>&);
// "diloco-direct is first: 27.0 s to 97 %, 1.44 times sooner than fedavg-direct ..."; "" if none.
std::string verdict(const std::vector<RankedGroup>&);
// The table, the best first.
std::string ranking_text(const std::string& name, const std::vector<RankedGroup>&,
                         const run::CostTable& prices);
nlohmann::ordered_json to_json(const RankedGroup&);

}  // namespace longhaul::cli
