#pragma once
// The combinations that `longhaul plan` may try: which are legal, how fast each is by a dry run
// without numbers, and which are near to one another.
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "longhaul/cli/advise_search.h"
#include "longhaul/cli/compare_jobs.h"

namespace longhaul::cli {

// One thread. Every candidate that it hands out has a job().
class AdviseCandidates {
 public:
  // `options` outlives this. `job`: as the options load it.
  AdviseCandidates(const RunOptions& options, const run::Job& job);

  // Times every legal strategy over every overlay, and with the sparse codec; those after `is_over`
  // are counted only. Error: no combination can be simulated, or none was before the end.
  Status predict_all(const std::function<bool()>& is_over);
  // From now on nothing is predicted when this says so: candidates not predicted yet are counted.
  void stop_when(std::function<bool()> is_over) { is_over_ = std::move(is_over); }
  // Of each strategy the overlay with the most samples a second; the same with the sparse codec
  // where that is faster. The fastest first.
  std::vector<Candidate> first() const;
  // Of a candidate that did well: other codecs, each over the overlay that suits it best, other
  // steps, and overlays that are as fast.
  std::vector<Candidate> neighbours(const Candidate&);

  // As the user's, with an end by time or samples only.
  const run::Job& job(const Candidate& candidate) const { return jobs_.at(candidate.label); }
  // The end by rounds that the user's job has.
  std::uint64_t max_rounds(const Candidate& c) const { return max_rounds_.at(c.label); }
  std::size_t predicted() const { return predicted_.size(); }
  std::size_t not_predicted() const { return not_predicted_; }
  std::size_t illegal() const { return illegal_; }
  const std::set<std::string>& left_out() const { return left_out_; }

 private:
  // What tells candidates apart.
  struct Choice {
    std::string sync, overlay, codec;
    std::uint64_t steps = 0;  // 0: as the job has it, or the strategy has none
    auto operator<=>(const Choice&) const = default;
  };
  Choice choice_of(const Candidate&) const;
  std::optional<Candidate> predicted(const Choice&);
  void add_overlays(Choice near, const Candidate& of, double least, std::size_t most,
                    std::vector<Candidate>& found);
  // The fastest overlay for that strategy, codec and steps.
  std::optional<Candidate> fastest(Choice);
  std::uint64_t own_steps(Choice);
  std::vector<std::string> overlays_of(const std::string& sync) const;

  const RunOptions& options_;
  const std::string codec_;  // the job's
  std::map<Choice, std::optional<Candidate>> predicted_;
  std::map<std::string, Choice> choices_;  // by label
  std::map<std::string, run::Job> jobs_;   // by label
  std::map<std::string, std::uint64_t> max_rounds_;
  std::map<std::string, std::vector<std::string>> overlays_;  // legal for a strategy, fastest first
  std::set<std::string> left_out_;
  std::size_t not_predicted_ = 0, illegal_ = 0;
  std::function<bool()> is_over_;  // empty: never
};

}  // namespace longhaul::cli
