#pragma once
// The rules by which studies of GADMM count iterations. F* is the least objective, f_n worker n's
// part of it and theta_n its model after an iteration:
//   published    |sum_n f_n(theta_n) - F*| < tolerance, which may be a change of sign alone
//   settled      the same, from there on: in `hold` consecutive iterations
//   every_model  max_n F(theta_n) - F* < tolerance
// (published: JMLR 2020 and its published code; the other rules are not from there.) The lowest
// worker judges by the figures that all workers report: f_n(theta_n), or F(theta_n) for
// every_model.
//
// With n workers the judge is at most n rounds ahead of the judged ones (holds_back()). If it finds
// in round k that the rule holds, its models of round k + n + 1 or earlier carry the end. With any
// chains, each round reaches one more worker, so all workers know the end n rounds later. In a new
// view, workers that know the end send it to all others.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "longhaul/base/archive.h"
#include "longhaul/core/machine.h"

namespace longhaul::sync::gadmm {

class Stopping final : public Machine {
 public:
  struct Figure {  // to the judge
    LONGHAUL_MESSAGE(1, "figure");
    Round round = 0;
    double value = 0;
    LONGHAUL_FIELDS((round, .max = 0x1p50), (value, .min = -1e300, .max = 1e300))
  };
  struct End {  // to all workers of a new view
    LONGHAUL_MESSAGE(2, "end");
    Round after = 0;
    LONGHAUL_FIELDS((after, .doc = "rounds of the run", .max = 0x1p50))
  };
  using Messages = MessageList<Figure, End>;

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

  // `workers`: at the start of the run.
  Stopping(Config config, std::uint64_t workers) : config_(std::move(config)), workers_(workers) {}

  bool is_on() const { return config_.rule != "rounds"; }
  bool wants_scores() const { return config_.rule == "every_model"; }
  // Rounds of the run; 0: unknown.
  Round end() const { return end_; }
  void learn_end(Round after) {
    if (after > 0 && is_on()) end_ = after;
  }
  bool is_over(Round rounds_done) const { return end_ > 0 && rounds_done >= end_; }
  // Returns true if this worker, of these live ones, must not begin the round before it has more
  // figures.
  bool holds_back(Round round, Rank self, const RankList& live) const {
    return is_on() && end_ == 0 && has_begun_ && live.front() == self && round > next_ + workers_;
  }

  // Called in a new view, before this node's round is sent: no worker begins the view without it.
  void enter_view(Turn& turn) {
    for (const Rank rank : live_workers(turn))
      if (end_ > 0 && rank != turn.self()) turn.send(rank, End{end_}, {}, kControl);
  }

  // Called at the end of a round with f_n(theta_n), mu/2 |theta_n|^2, and theta_n.
  void round_done(Round round, double loss, double penalty, const std::vector<double>& theta,
                  Turn& turn) {
    if (!is_on() || end_ > 0) return;
    if (!has_begun_) begin(round);
    if (!wants_scores()) return report(round, std::isfinite(loss) ? loss : kUnknown, turn);
    penalties_[round] = penalty;
    std::vector<float> model(theta.begin(), theta.end());
    model.resize(turn.place().layout->size());
    turn.report(round, snapshot_of(std::move(model)));
  }

  void on_scored(Round round, const Evaluation& evaluation, Turn& turn) override {
    const auto penalty = penalties_.extract(round);
    if (penalty.empty()) return;
    const double value = evaluation.loss * double(evaluation.samples) +
                         penalty.mapped() * double(live_workers(turn).size());
    const bool is_known = evaluation.samples > 0 && std::isfinite(value);
    report(round, is_known ? value : kUnknown, turn);
  }

  Status on_message(Rank from, const Message& message, Turn& turn) override {
    return dispatch(Messages{}, message, [&](const auto& m) -> Status {
      if (!is_on() || !turn.place().member(from).is(Role::worker))
        return malformed("a figure or an end where no rule ends the run");
      if constexpr (std::is_same_v<std::decay_t<decltype(m)>, End>) {
        learn_end(m.after);
        return Ok{};
      } else {
        return take(from, m, message.epoch, turn);
      }
    });
  }

  void on_view(const View&, Turn&) override {
    has_begun_ = false;
    figures_.clear();
    penalties_.clear();
  }

  // Called in the first round of a view: earlier rounds are not judged.
  void begin(Round first) {
    has_begun_ = true;
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
  void state(Archive& ar) override {
    ar(has_begun_, next_, since_, fired_, figures_, penalties_, end_);
  }

 private:
  Status take(Rank from, const Figure& figure, Epoch epoch, Turn& turn) {
    if (epoch != turn.view().epoch) return Ok{};
    // A worker is at most n + 1 rounds ahead of the judge, and the judge n of its next round.
    const auto unjudged =
        std::ranges::count_if(figures_, [&](const auto& one) { return one.second.contains(from); });
    if (live_workers(turn).front() != turn.self() || std::uint64_t(unjudged) > 2 * workers_ + 2)
      return malformed("an unexpected figure");
    add(from, figure.round, figure.value);
    apply(turn);
    return Ok{};
  }

  void report(Round round, double figure, Turn& turn) {
    if (end_ > 0) return;
    const Rank lowest = live_workers(turn).front();
    if (lowest != turn.self()) return turn.send(lowest, Figure{round, figure}, {}, kControl);
    add(lowest, round, figure);
    apply(turn);
  }

  void apply(Turn& turn) {
    for (const auto& [round, error] : judge(live_workers(turn))) turn.record("error", round, error);
    if (end_ > 0 || !fired_) return;
    end_ = next_ + 2 * workers_ + 2;
    turn.record("rule_holds", *fired_, 1);
  }

  const Config config_;
  const std::uint64_t workers_;  // at the start of the run
  bool has_begun_ = false;       // in this view
  Round next_ = 0;
  std::optional<Round> since_;  // the rounds from this one up to next_ are within the tolerance
  std::optional<Round> fired_;
  std::map<Round, std::map<Rank, double>> figures_;
  std::map<Round, double> penalties_;  // by rounds whose score is pending
  Round end_ = 0;
};

}  // namespace longhaul::sync::gadmm
