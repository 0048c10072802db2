#pragma once
// The rules by which studies of GADMM count iterations. F* is the least objective, f_n worker n's
// part of it and theta_n its model after an iteration:
//   published    |sum_n f_n(theta_n) - F*| < tolerance, which may be a change of sign alone
//   settled      the same, from there on: in `hold` consecutive iterations
//   every_model  max_n F(theta_n) - F* < tolerance
// (published: JMLR 2020 and its published code; the other rules are not from there.) One worker
// judges by the figures that all workers report: f_n(theta_n), or F(theta_n) for every_model.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "longhaul/base/archive.h"
#include "longhaul/core/shared_members.h"
#include "longhaul/core/types.h"

namespace longhaul::sync::gadmm {

class Stopping {
 public:
  struct Config {
    std::string rule = "rounds";  // no rule
    double least = 0;             // F*
    double tolerance = 1e-4;
    Round hold = 100;
  };
  struct Judged {
    Round round = 0;
    double error = 0;
  };
  // The figure of a model without a score. Greater than any tolerance.
  static constexpr double kUnknown = 1e300;

  explicit Stopping(Config config) : config_(std::move(config)) {}

  bool is_on() const { return config_.rule != "rounds"; }
  bool wants_scores() const { return config_.rule == "every_model"; }
  // Called after a loss: rounds before `first` are not judged.
  void begin(Round first) {
    next_ = first;
    since_.reset();
    // Other workers may be in that round already.
    std::erase_if(figures_, [&](const auto& one) { return one.first < first; });
  }

  // Adds a figure. Has no effect in a round that is judged already.
  void add(Rank from, Round round, double figure) {
    if (is_on() && round >= next_ && !fired_) figures_[round][from] = figure;
  }

  // Judges the rounds that all of `live` have reported, in order, until the rule holds.
  std::vector<Judged> judge(const std::vector<Rank>& live) {
    std::vector<Judged> all;
    while (is_on() && !fired_ && missing(live).empty()) {
      double sum = -config_.least, most = std::numeric_limits<double>::lowest();
      const auto told = figures_.extract(next_);
      for (const auto& [rank, figure] : told.mapped()) {  // in rank order
        sum += figure;
        most = std::max(most, figure - config_.least);
      }
      const double error = wants_scores() ? most : sum;
      const bool is_within = (wants_scores() ? error : std::abs(error)) < config_.tolerance;
      if (!is_within) since_.reset();
      if (is_within && !since_) since_ = next_;
      const Round hold = config_.rule == "settled" ? config_.hold : 1;
      if (since_ && next_ + 1 - *since_ >= hold) fired_ = since_;
      all.push_back({next_++, error});
    }
    if (fired_) figures_.clear();
    return all;
  }

  Round next() const { return next_; }  // next round to be judged
  // Returns the workers without a figure for that round.
  std::vector<Rank> missing(const std::vector<Rank>& live) const {
    const auto told = figures_.find(next_);
    return those_of(
        live, [&](Rank rank) { return told == figures_.end() || !told->second.contains(rank); });
  }

  // Returns the first round in which the rule held.
  std::optional<Round> holds_since() const { return fired_; }
  void state(Archive& ar) { ar(next_, since_, fired_, figures_); }

 private:
  const Config config_;
  Round next_ = 0;
  std::optional<Round> since_;  // the rounds from this one up to next_ are within the tolerance
  std::optional<Round> fired_;
  std::map<Round, std::map<Rank, double>> figures_;
};

}  // namespace longhaul::sync::gadmm
