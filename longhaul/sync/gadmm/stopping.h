#pragma once
// The rules by which studies of GADMM count iterations. F* is the least objective, f_n worker n's
// part of it and theta_n its model after an iteration:
//   published    |sum_n f_n(theta_n) - F*| < tolerance, which may be a change of sign alone
//   settled      the same, from there on: in `hold` consecutive iterations
//   every_model  max_n F(theta_n) - F* < tolerance
// (published: JMLR 2020 and its published code; the other rules are not from there.) The senior
// worker judges by the figures that all workers report: f_n(theta_n), or F(theta_n) for
// every_model.
//
// With n workers, none is n rounds ahead of another, and the judge is at most n + 1 ahead of the
// round that it judges next (holds_back()). If the rule holds, the judge sends the end, 2 n + 2
// rounds after that one, to all workers. They answer, and until all have, the judge stays where it
// is: no worker reaches the end before all know it. In a new view the judge sends it again. A new
// judge that has not received it judges anew, and the others forget it: none has reached it.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "longhaul/base/archive.h"
#include "longhaul/core/machine.h"
#include "longhaul/sync/flat.h"

namespace longhaul::sync::gadmm {

class Stopping final : public Machine {
 public:
  struct Figure {  // to the judge
    LONGHAUL_MESSAGE(1, "figure");
    Round round = 0;
    double value = 0;
    LONGHAUL_FIELDS((round, .max = 0x1p50), (value, .min = -1e300, .max = 1e300))
  };
  struct End {  // from the judge to all workers, and their answers
    LONGHAUL_MESSAGE(2, "end");
    Round after = 0;
    LONGHAUL_FIELDS((after, .doc = "rounds of the run", .min = 1, .max = 0x1p50))
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
  bool is_over(Round rounds_done) const { return end_ > 0 && rounds_done >= end_; }
  // Returns true if this worker must not begin the round before it has more figures or answers.
  bool holds_back(Round round, const Turn& turn) const {
    if (!is_on() || !is_senior(turn)) return false;
    if (end_ == 0) return has_begun_ && round > next_ + workers_;
    return !unheard_.empty() && round + workers_ + 1 >= end_;
  }
  // Returns what this worker waits for while it is held back.
  std::string waiting_for(const std::vector<Rank>& live) const {
    if (end_ > 0) return "answers to the end of the run of ranks" + listed(unheard_);
    return "figures of iteration " + std::to_string(next_) + " of ranks" + listed(missing(live));
  }

  // Called in a new view, before this node's round is sent: no worker begins the view without it.
  void enter_view(Turn& turn) {
    unheard_.clear();
    const Rank judge = senior_worker(turn.place(), turn.view());
    if (judge == turn.self()) return tell_end(turn);
    if (told_by_ != judge) end_ = 0;
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
      return message.epoch == turn.view().epoch ? take(from, m, turn) : Status(Ok{});
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
    ar(has_begun_, next_, since_, fired_, figures_, penalties_, end_, told_by_, unheard_);
  }

 private:
  Status take(Rank from, const End& end, Turn& turn) {
    const bool is_answer = is_senior(turn);
    if (!is_answer && from != senior_worker(turn.place(), turn.view()))
      return malformed("an end of the run by who does not judge it");
    if (end.after != end_ && (is_answer || end_ > 0))
      return malformed("another end of the run than after " + std::to_string(end_) + " rounds");
    if (is_answer) return unheard_.erase(from), Ok{};
    end_ = end.after;
    told_by_ = from;
    turn.send(from, end, {}, kControl);
    return Ok{};
  }

  void tell_end(Turn& turn) {
    if (end_ == 0) return;
    for (const Rank rank : live_workers(turn)) {
      if (rank == turn.self()) continue;
      unheard_.insert(rank);
      turn.send(rank, End{end_}, {}, kControl);
    }
  }

  Status take(Rank from, const Figure& figure, Turn& turn) {
    // A worker is at most n + 1 rounds ahead of the judge, and the judge n of its next round.
    const auto unjudged =
        std::ranges::count_if(figures_, [&](const auto& one) { return one.second.contains(from); });
    if (!is_senior(turn) || std::uint64_t(unjudged) > 2 * workers_ + 2)
      return malformed("an unexpected figure");
    add(from, figure.round, figure.value);
    apply(turn);
    return Ok{};
  }

  void report(Round round, double figure, Turn& turn) {
    if (end_ > 0) return;
    const Rank judge = senior_worker(turn.place(), turn.view());
    if (judge != turn.self()) return turn.send(judge, Figure{round, figure}, {}, kControl);
    add(judge, round, figure);
    apply(turn);
  }

  void apply(Turn& turn) {
    for (const auto& [round, error] : judge(live_workers(turn))) turn.record("error", round, error);
    if (end_ > 0 || !fired_) return;
    end_ = next_ + 2 * workers_ + 2;
    turn.record("rule_holds", *fired_, 1);
    tell_end(turn);
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
  std::optional<Rank> told_by_;  // the judge that sent it
  std::set<Rank> unheard_;       // at the judge: workers that have not answered
};

}  // namespace longhaul::sync::gadmm
