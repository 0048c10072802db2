#pragma once
// The search of `longhaul plan`: successive halving over combinations. Their runs are simulated for
// a limited virtual time. Pure: hooks run the trials.
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "longhaul/run/summary.h"

namespace longhaul::cli {

struct Candidate {
  std::string label;  // "diloco-forest-int8-steps=20-rate=0.08"
  std::string sync, overlay, codec;
  // Samples of all sites per virtual second, and the time of a round; predicted without numbers.
  double samples_per_s = 0, round_s = 0;
  std::string family = {};  // label without rates; candidates of one family differ in rates only
  bool operator==(const Candidate& other) const { return label == other.label; }
};

// The result of a candidate in a limited virtual time.
struct Trial {
  Candidate candidate;
  bool ran = false;  // false: the budget was used up, or the run failed (`why`)
  std::string why = {};
  std::optional<double> to_target;  // seconds; absent: not reached
  double score = 0;                 // score at the limit; more is better (bits: negative)
  bool scored = false;              // false: `score` has no meaning
  double limit_s = 0;
  double start_s = 0;  // real time beside its simulation, if it ran alone; else 0
  run::Summary summary = {};

  // Returns true if it did not run to its end for lack of budget, or after Ctrl-C.
  bool lacked_budget() const { return !ran && limit_s == 0 && why.empty(); }
  // Returns true if its run failed, not by divergence.
  bool failed() const { return !ran && limit_s == 0 && !why.empty(); }
  // Returns the score in the plan's measure: accuracy, or bits per byte.
  double measured_score() const { return summary.target_bits_per_byte ? -score : score; }
};

// Keeps `most` candidates: `probe`, which has run, then those with the job's own rate, then others.
// The order stays otherwise.
void keep_first(std::vector<Candidate>&, const Candidate& probe, std::size_t most);

// The speed of each family's longest trial. Shorter trials compute more samples in a second,
// because most of their time is before the first exchange.
class FamilySpeeds {
 public:
  // `samples` > 0 in `time_s` of virtual time.
  void note(const std::string& family, double samples, double time_s) {
    Longest& longest = by_family_[family];
    if (time_s > longest.time_s) longest = {time_s, samples / time_s};
  }
  void forget(const std::string& family) { by_family_.erase(family); }
  // Returns samples per virtual second; 0: no trial has ended.
  double of(const std::string& family) const {
    const auto at = by_family_.find(family);
    return at == by_family_.end() ? 0 : at->second.samples_per_s;
  }

 private:
  struct Longest {
    double time_s = 0, samples_per_s = 0;
  };
  std::map<std::string, Longest> by_family_;
};

// Once a candidate has reached the target, the limit of the others as a multiple of its time.
inline constexpr double kRival = 1.25;

// Hooks of the search. In each stage the remaining candidates train for longer.
struct SearchHooks {
  // Runs all candidates, each until the target or for `limit_s` of virtual time; less, down to the
  // limit of the next stage, once one has reached the target. Returns one trial per candidate.
  std::function<std::vector<Trial>(const std::vector<Candidate>&, double limit_s)> run;
  // Returns variants of a successful candidate: rates, steps, codec, overlay.
  std::function<std::vector<Candidate>(const Candidate&)> neighbours;
  std::function<bool()> is_over;  // true if the budget is used up, or after Ctrl-C
};

struct SearchResult {
  std::vector<Trial> ranking;  // newest trial of each candidate, best first
  std::size_t stages = 0;
  bool complete = false;  // every remaining candidate was tried up to the limit
};

// Returns true if the first trial is better: it reached the target sooner. Otherwise scored trials
// come first, then the higher score, then more virtual time.
bool is_better_trial(const Trial&, const Trial&);

// `reached`: a trial before the search, if it reached the target.
SearchResult successive_halving(std::vector<Candidate>, double first_limit_s, const SearchHooks&,
                                const std::optional<Trial>& reached = {});

}  // namespace longhaul::cli
