#pragma once
// The combinations that `longhaul plan` can try: which are legal, how fast each is in a dry run
// without numbers, and which are similar.
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "longhaul/cli/advise_search.h"
#include "longhaul/cli/run_options.h"

namespace longhaul::cli {

// Returns an error of the simulator without the command that repeats it, which names a single run.
inline std::string without_command(const std::string& error) {
  return error.substr(0, error.find(" [longhaul simulate "));
}

// Source of candidates. Used by one thread. Every returned candidate has a job().
class AdviseCandidates {
 public:
  // `options` must outlive this object. `job`: the job that the options load. `tunes_rates`: its
  // learners train at its [optimizer] rate.
  AdviseCandidates(const RunOptions& options, const run::Job& job, bool tunes_rates);

  // Predicts every legal strategy over every overlay, and with the codecs of first(). Only counts
  // the combinations that remain when `is_over` returns true. Error: no combination can be
  // simulated, or none was before the end.
  Status predict_all(const std::function<bool()>& is_over);

  // Sets a stop condition: while it is true, new candidates are counted but not predicted.
  void stop_when(std::function<bool()> is_over) { is_over_ = std::move(is_over); }
  // Returns the first candidates, the fastest first. Each strategy has the overlay with the most
  // samples per second, with int8 instead of the job's codec if that is more than 1.2 times as
  // fast. The sparse codec is added if it is 1.2 times faster still. Each candidate has the job's
  // learning rate, a quarter of it, or four times it.
  std::vector<Candidate> first();

  // Returns variants of a successful candidate: smaller and larger learning rates (up to half and
  // twice) and outer rates, half and twice its steps, other codecs, and overlays of similar speed.
  // A codec is also tried over the overlay that is fastest with it.
  std::vector<Candidate> neighbours(const Candidate& near);

  // Returns the candidate's job, which ends by time or samples only.
  const run::Job& job(const Candidate& candidate) const { return jobs_.at(candidate.label); }
  // Returns the max_rounds of the user's job.
  std::uint64_t max_rounds(const Candidate&) const;
  std::size_t predicted() const { return predicted_.size(); }
  std::size_t not_predicted() const { return not_predicted_; }
  std::size_t illegal() const { return illegal_; }
  const std::set<std::string>& left_out() const { return left_out_; }
  // Returns the strategies that no combination allows, or that the learners cannot do, with the
  // reason.
  const std::map<std::string, std::string>& refused() const { return refused_; }
  bool tunes_rates() const { return tunes_rates_; }

 private:
  // The properties in which candidates differ.
  struct Choice {
    std::string sync, overlay, codec;
    std::uint64_t steps = 0;  // 0: as in the job, or the strategy has none
    // Exponents: the rates are those of the job times sqrt(2)^rate and sqrt(2)^outer.
    int rate = 0, outer = 0;
    Choice with_own_rates() const { return {sync, overlay, codec, steps}; }
    auto operator<=>(const Choice&) const = default;
  };
  const Choice& choice_of(const Candidate& one) const { return choices_.at(one.label); }

  std::optional<Candidate> predicted(const Choice&);
  std::optional<Candidate> timed(const Choice&);
  std::optional<Candidate> with_rates(const Candidate&, const Choice&);
  void add_overlays(Choice near, const Candidate& of, double least, std::size_t most,
                    std::vector<Candidate>& found);
  std::optional<Candidate> fastest(Choice);
  std::uint64_t own_steps(Choice);
  std::vector<std::string> overlays_of(const std::string& sync) const;

  const RunOptions& options_;
  const std::string codec_;  // codec of the job
  const bool tunes_rates_;
  std::map<Choice, std::optional<Candidate>> predicted_;      // keys have the job's rates
  std::map<std::string, Choice> choices_;                     // by label
  std::map<std::string, run::Job> jobs_;                      // by label
  std::map<std::string, std::uint64_t> max_rounds_;           // by family
  std::map<std::string, std::vector<std::string>> overlays_;  // legal, by strategy, fastest first
  std::set<std::string> left_out_;
  std::map<std::string, std::string> refused_, failures_;  // by strategy; of predictions
  std::size_t not_predicted_ = 0, illegal_ = 0;
  std::function<bool()> is_over_;  // empty: never
};

}  // namespace longhaul::cli
