#pragma once
// The result of `longhaul plan`, as text and as JSON.
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "longhaul/cli/advise_finals.h"

namespace longhaul::cli {

struct Advice {
  std::string name, folder;                 // name of the job, folder of the trials
  std::string target;                       // "90 %"
  std::string budget = "--budget-minutes";  // option of the budget
  bool bits = false;                        // scores are bits per byte, else accuracies
  SearchResult search;
  std::vector<Finalist> finalists;   // best first; empty: no time was left for them
  std::optional<double> confidence;  // confidence() in the first finalist
  std::vector<FrontPoint> front;
  std::vector<Change> changes;
  bool tunes_rates = true;  // false: rates stay as in the job, or as in its own loop
  std::size_t predicted = 0, not_predicted = 0, illegal = 0, runs = 0;
  std::vector<Candidate> fastest;  // most predicted samples per second first
  bool interrupted = false;        // ended by Ctrl-C
  // [stop] max_rounds of the user's job and of the written job, if a final run needed more rounds.
  std::optional<std::uint64_t> rounds_before, rounds_written;
  std::string not_written;         // file of --write if no job was found for it; "": none requested
  std::set<std::string> left_out;  // strategies of kinds that are not recommended
  std::map<std::string, std::string> refused;  // strategies that the job does not allow: reason
  std::vector<std::string> no_budget;          // what did not run for lack of budget
  std::string currency;                        // of prices; "": unknown
  double spent_s = 0, epochs = 0;  // real seconds; samples of all trials, in training sets
  std::uint64_t samples = 0;       // of all trials

  // Returns true if a combination reached the target, on other seeds too if there are finalists.
  bool found() const {
    if (!finalists.empty()) return finalists.front().standing.target.has_value();
    return !search.ranking.empty() && search.ranking.front().to_target.has_value();
  }
  // Returns the first finalist, else the quickest trial. There must be a trial.
  const Candidate& best() const {
    return finalists.empty() ? search.ranking.front().candidate : finalists.front().candidate;
  }
  const Trial& best_trial() const;  // trial of best() in the search
};

// Returns "90 %", or "1.2 bits per byte".
std::string target_text(const run::StopTable&);
// Returns the text for the user. `written`: the file of --write; "": none.
std::string advice_text(const Advice&, const std::string& written);
nlohmann::ordered_json to_json(const Advice&);

}  // namespace longhaul::cli
