#pragma once
// The last part of `longhaul plan`: runs of a few finalists on seeds that did not choose them.
// Finds the first one, its confidence, alternatives, and what would change the choice. Pure
// functions.
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "longhaul/cli/advise_search.h"
#include "longhaul/report/run_reader.h"
#include "longhaul/report/seed_ranges.h"
#include "longhaul/run/job/job.h"
#include "longhaul/run/target_time.h"

namespace longhaul::cli {

// One run of a finalist, which continues beyond the target.
struct FinalRun {
  std::uint64_t seed = 0;
  bool diverged = false;
  // Times of the job's target and of a target one point higher; absent: not reached.
  std::optional<run::TargetTime> target = {}, higher = {};
  double wan_bytes = 0;              // bytes between sites until the target, or in the whole run
  double time_s = 0;                 // seconds of the whole run
  std::uint64_t rounds = 0;          // of all the run
  std::optional<double> score = {};  // score of the final model, in the plan's measure
  bool lower_is_better = false;      // for `score`
};

struct Finalist {
  Candidate candidate;
  std::vector<FinalRun> runs = {};
  report::Standing standing = {};
  std::optional<double> cost = {};  // median over the seeds; absent without prices
  report::Difference from_first = report::Difference::clear;
};

// Returns a target one point higher: 0.9 becomes 0.91. A target near 1 moves half of the way to 1.
// For text, use one per cent fewer bits instead.
double higher_target(double accuracy);
// Returns the finalists, at most `most`, from the trials that reached the target: the quickest of
// each family. The last two places are for those that send the fewest bytes.
std::vector<Candidate> finalists_of(const std::vector<Trial>& ranking, std::size_t most);

// Returns the largest finals that are expected to fit into `left`. `costs`: one run of each
// finalist, in their order, in the unit of `left`. With fewer than `seeds` seeds only if two
// finalists (or the only one) do not fit otherwise, and never on one seed: then there are no
// finals.
struct FinalsSize {
  std::size_t finalists = 0, seeds = 0;
};
FinalsSize finals_that_fit(const std::vector<double>& costs, std::size_t seeds, double left);

// The time when the scores of a run reach a target (more is better), and the bytes sent until then.
struct Crossing {
  run::TargetTime time;
  std::optional<double> wan_bytes;
};
std::optional<Crossing> crossing(const std::vector<report::ScorePoint>& scores, bool bits,
                                 double target);

// Computes the results of the runs and sorts the finalists, best first.
void rank_finalists(std::vector<Finalist>&, const run::CostTable& prices, std::size_t nodes);

// Returns the share of resamplings in which the first finalist is the quickest. Each resampling
// draws as many seeds as there are runs, with repetition, and each time between the two scores that
// enclose it. Absent unless the first finalist and another one have at least two seeds.
std::optional<double> confidence(const std::vector<Finalist>&, std::uint64_t seed);

// A finalist that no other beats in time, bytes and price at once.
struct FrontPoint {
  std::string label;
  double time_s = 0, wan_bytes = 0;
  std::optional<double> cost = {}, score = {};  // score: median at the end of the runs
  std::size_t seeds = 0, reached = 0;           // runs; those that reached the target
  std::string does, risks;                      // description and risks; "": none
};
inline constexpr std::size_t kMaxFront = 5;
// Returns the front of the finalists that reached the target, the quickest first, at most
// kMaxFront. `job_of` returns a candidate's job.
std::vector<FrontPoint> front_of(const std::vector<Finalist>&,
                                 const std::function<const run::Job&(const Candidate&)>& job_of);
// Return, in one line, what a combination does and what it risks.
std::string doing_of(const run::Job&);
std::string risks_of(const run::Job&);

// The choice in another situation, with one seed.
struct Change {
  std::string what;  // "half the bandwidth"
  // Tried finalists, the quickest first; those that did not reach the target last.
  std::vector<std::pair<std::string, std::optional<double>>> times = {};
};
bool keeps_first(const Change&, const std::string& first);
// Multiplies every rate of the network by `factor`.
void scale_bandwidth(run::Job&, double factor);
// Doubles the step time of the slowest site and returns its name.
std::string slow_down(run::Job&);

nlohmann::ordered_json to_json(const Finalist&);
nlohmann::ordered_json to_json(const FrontPoint&);
nlohmann::ordered_json to_json(const Change&);

}  // namespace longhaul::cli
