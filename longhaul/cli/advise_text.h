#pragma once
// What `longhaul plan` found, in words and as JSON.
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "longhaul/run/summary.h"

namespace longhaul::cli {

struct Candidate {
  std::string label;              // "diloco-forest-int8-steps=20"
  std::vector<std::string> sets;  // --set of the job: "sync.kind=diloco"
  std::string sync, overlay, codec;
  double samples_per_s = 0;  // of all sites in virtual time, predicted without numbers
  bool operator==(const Candidate& other) const { return label == other.label; }
};

// What a candidate did in a limited virtual time.
struct Trial {
  Candidate candidate;
  bool ran = false;  // false: the budget was over, or it failed (`why`)
  std::string why = {};
  std::optional<double> to_target;  // s
  double score = 0;                 // at the limit; more is better
  bool scored = false;              // else `score` is less than any
  double limit_s = 0;
  run::Summary summary = {};
};

// The search of `longhaul plan`: successive halving over candidates whose runs are simulated for a
// limited virtual time. Each stage lets those left train for longer; once one has reached the
// target, its time limits the others, for who has not reached it by then cannot be better.
struct SearchHooks {
  // Runs all of them, each until the target or for so much virtual time; one trial each.
  std::function<std::vector<Trial>(const std::vector<Candidate>&, double limit_s)> run;
  // Other settings near to a candidate that did well: steps, codec, overlay.
  std::function<std::vector<Candidate>(const Candidate&)> neighbours;
  std::function<bool()> is_over;  // the budget is used up, or Ctrl-C
};

struct SearchResult {
  std::vector<Trial> ranking;  // the newest trial of each candidate, the best first
  std::size_t stages = 0;
  bool complete = false;  // every candidate left was tried up to the best one's time
};

// The better first: reached the target sooner, then higher score, then more virtual time.
bool is_better_trial(const Trial&, const Trial&);

SearchResult successive_halving(std::vector<Candidate>, double first_limit_s, const SearchHooks&);

struct Advice {
  std::string name, folder;  // of the job; of the trials
  SearchResult search;
  std::vector<double> times;  // to the target, of the best one: a seed each
  std::size_t predicted = 0, not_predicted = 0, illegal = 0, runs = 0;
  std::vector<Candidate> fastest;  // as predicted: the most samples a second first
  bool interrupted = false;        // by Ctrl-C
  // [stop] max_rounds of the job, where the runs of the best one needed more; of the job written.
  std::optional<std::uint64_t> rounds_before, rounds_written;
  std::string not_written;         // the file of --write, which has no job; "": none was asked for
  std::set<std::string> left_out;  // strategies that are not recommended by their kind
  double spent_s = 0, epochs = 0;  // real time; samples of all trials, in training sets

  bool found() const {
    return !search.ranking.empty() && search.ranking.front().to_target.has_value();
  }
};

// `written`: the file of --write; "": none.
std::string advice_text(const Advice&, const std::string& written);
nlohmann::ordered_json to_json(const Advice&);

}  // namespace longhaul::cli
