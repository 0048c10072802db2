#pragma once
// The stop rule of a synchronous run. All nodes end with the same round in every host.
//
// Every `report_every` rounds the reporter (the senior worker) has the model scored and sends its
// verdict to all workers. A verdict on round r takes effect at the end of round r + lag. All
// workers wait for it, so no result depends on the clock. A new reporter first collects the
// verdicts of the survivors, so that every verdict that a node acted on remains valid.
#include <algorithm>
#include <map>

#include "longhaul/core/machine.h"

namespace longhaul {

struct StopConfig {
  std::optional<double> target_accuracy = {};
  std::optional<double> target_loss = {};
  Round max_rounds = 100;
  std::optional<double> max_hours = {};
  std::uint64_t max_samples = 0;  // 0: no limit; max_epochs times the samples of all sites
  Round report_every = 1;         // rounds
  Round lag = 1;                  // rounds from a verdict to its effect
  bool snapshots = true;          // false: a phantom job, no model to score
  Round apart = 1;                // maximum distance between two nodes, rounds
  // Nodes know different counts of samples; the reporter's count at a reported round decides.
  bool reporter_counts = false;

  // Returns true if the model has reached a configured target.
  bool reached(const Evaluation& evaluation) const {
    return (target_accuracy && evaluation.accuracy >= *target_accuracy) ||
           (target_loss && evaluation.loss <= *target_loss);
  }
};

class StopRule final : public Machine {
 public:
  enum class Reason : std::uint8_t { none, target, max_rounds, max_hours, max_samples };
  enum class Step { wait, go_on, stop };

  struct Verdict {
    LONGHAUL_MESSAGE(1, "verdict");
    Round round = 0;
    Reason reason = Reason::none;
    LONGHAUL_FIELDS(round, (reason, .max = 4))
  };
  // To a new reporter: the verdicts that this node knows and has not acted on yet.
  struct Known {
    LONGHAUL_MESSAGE(2, "known");
    Epoch epoch = 0;
    std::vector<Verdict> verdicts;
    LONGHAUL_FIELDS(epoch, verdicts)
  };
  using Messages = MessageList<Verdict, Known>;

  explicit StopRule(StopConfig config) : config_(config) {}

  // Called when round `round` is done. `model`: its result; `samples`: used by all nodes so far.
  void round_done(Round round, std::span<const float> model, std::uint64_t samples, Turn& turn) {
    if (!settled_) settle_unknown(turn);
    newest_ = round;
    samples_ = samples;
    if (!reports(round) || verdicts_.contains(round)) return;
    open_[round].assign(model.begin(), model.end());
    counts_[round] = samples;
    if (is_reporter(turn) || turn.place().own_tests) ask(round, turn);
  }

  // Called at a returned node, which will next be done with round `next`. The others have decided
  // on the rounds before.
  void skip_to(Round next) {
    if (next > 0) newest_ = next - 1;
  }
  // Called at a returned node that waits for another model: it knows its round no longer.
  void forget_round() {
    reason_ = Reason::none;
    newest_.reset();
    open_.clear();
    counts_.clear();
  }

  // Returns whether the node may continue after this round. Called in on_progress until the result
  // is not `wait`.
  Step after(Round round) {
    if (round >= config_.lag) {
      // Newest round that was reported at least `lag` rounds ago.
      const Round reported = (round - config_.lag + 1) / config_.report_every;
      if (reported > 0) {
        const auto verdict = verdicts_.find(reported * config_.report_every - 1);
        if (verdict != verdicts_.end())
          reason_ = verdict->second;
        else if (!is_unknown(reported * config_.report_every - 1))
          return Step::wait;
      }
    }
    if (reason_ == Reason::none && round + 1 >= config_.max_rounds) reason_ = Reason::max_rounds;
    if (reason_ == Reason::none && !config_.reporter_counts && uses_up(samples_))
      reason_ = Reason::max_samples;
    return reason_ == Reason::none ? Step::go_on : Step::stop;
  }

  Reason reason() const { return reason_; }
  std::string waiting_for() const {
    return open_.empty() ? "" : "the verdict on round " + std::to_string(open_.begin()->first);
  }

  Status on_message(Rank from, const Message& message, Turn& turn) override {
    // A reporter is at most `apart` rounds ahead of any node, and not `lag` reports ahead.
    const Round furthest = newest_.value_or(0) + config_.lag + 1 + config_.apart;
    const bool anew = turn.view().since(turn.self()) > 0 && !newest_;  // returned, round unknown
    auto check = [&](const Verdict& v) -> Status {
      if ((v.round > furthest && !anew) || !reports(v.round))
        return malformed("a verdict on round " + std::to_string(v.round) + ", which is not due");
      return Ok{};
    };
    return dispatch(Messages{}, message, [&](const auto& m) -> Status {
      if constexpr (std::is_same_v<std::decay_t<decltype(m)>, Verdict>) {
        if (from != senior_worker(turn.place(), turn.view()))
          return malformed("a verdict of a node that is not the reporter");
        LH_TRY(check(m));
        decide(m);
      } else {
        if (m.epoch != turn.view().epoch) return Ok{};
        if (m.verdicts.size() > config_.lag + 1 + config_.apart)  // more than a node keeps
          return malformed("verdicts on " + std::to_string(m.verdicts.size()) + " rounds");
        for (const Verdict& v : m.verdicts) LH_TRY(check(v));
        if (unheard_.erase(from) == 0) return Ok{};  // this reporter made them all
        for (const Verdict& v : m.verdicts) decide(v);
        if (unheard_.empty()) take_over(turn);
      }
      return Ok{};
    });
  }

  void on_scored(Round round, const Evaluation& evaluation, Turn& turn) override {
    if (!is_reporter(turn) || verdicts_.contains(round) || !open_.contains(round)) return;
    Verdict verdict{round, Reason::none};
    if (config_.reached(evaluation)) {
      verdict.reason = Reason::target;
    } else if (config_.max_hours && seconds(turn.now()) >= *config_.max_hours * 3600) {
      verdict.reason = Reason::max_hours;
    } else if (config_.reporter_counts && uses_up(counts_[round])) {
      verdict.reason = Reason::max_samples;
    }
    for (Rank rank : live_workers(turn))
      if (rank != turn.self()) turn.send(rank, verdict, {}, kControl);
    decide(verdict);
  }

  void on_view(const View& before, Turn& turn) override {
    const Rank reporter = senior_worker(turn.place(), turn.view());
    if (reporter != turn.self()) {
      // Always sent: the reporter may have collected in the last view, and starts again in this
      // one.
      Known known{turn.view().epoch, {}};
      for (auto [round, reason] : verdicts_) known.verdicts.push_back({round, reason});
      turn.send(reporter, known, {}, kControl);
      return;
    }
    if (senior_worker(turn.place(), before) == turn.self() && unheard_.empty()) return;
    unheard_.clear();
    for (Rank rank : live_workers(turn))
      if (rank != turn.self()) unheard_.insert(rank);
    if (unheard_.empty()) take_over(turn);
  }

  void state(Archive& ar) override {
    ar(reason_, newest_, samples_, open_, counts_, verdicts_, unheard_);
    if (!ar.loading()) return;
    resumed_ = newest_;
    settled_ = false;
  }

  // Saves or loads the state that a returned node needs. The node keeps the verdicts it already
  // has.
  void hand_over(Archive& ar) {
    auto verdicts = verdicts_;
    ar(reason_, newest_, samples_, verdicts);
    for (const auto& [round, reason] : verdicts) decide({round, reason});
  }

 private:
  bool reports(Round round) const { return (round + 1) % config_.report_every == 0; }
  bool is_reporter(const Turn& turn) const { return is_senior(turn) && unheard_.empty(); }

  bool uses_up(std::uint64_t samples) const {
    return config_.max_samples > 0 && samples >= config_.max_samples;
  }
  bool is_unknown(Round round) const {
    return resumed_ && round <= *resumed_ && reports(round) && !verdicts_.contains(round) &&
           !open_.contains(round);
  }

  // Other nodes may be behind and wait for a verdict on a round that this node did not report.
  void settle_unknown(Turn& turn) {
    settled_ = true;
    if (!is_reporter(turn) || !resumed_) return;
    const Round kept = config_.lag + config_.apart;
    for (Round round = *resumed_ - std::min(*resumed_, kept); round <= *resumed_; ++round) {
      if (!is_unknown(round)) continue;
      const Verdict none{round, Reason::none};
      for (Rank rank : live_workers(turn))
        if (rank != turn.self()) turn.send(rank, none, {}, kControl);
      decide(none);
    }
  }

  // Never null, which would be the model of a learner that may be computing.
  void ask(Round round, Turn& turn) { turn.report(round, snapshot_of(open_.at(round))); }

  void decide(const Verdict& verdict) {
    verdicts_.emplace(verdict.round, verdict.reason);
    open_.erase(verdict.round);
    counts_.erase(verdict.round);
    while (verdicts_.size() > config_.lag + 1 + config_.apart) verdicts_.erase(verdicts_.begin());
  }

  // All survivors have answered: no node has acted on a verdict that none of them has.
  void take_over(Turn& turn) {
    for (Rank rank : live_workers(turn))
      for (auto [round, reason] : verdicts_)
        if (rank != turn.self()) turn.send(rank, Verdict{round, reason}, {}, kControl);
    for (const auto& [round, model] : open_) ask(round, turn);
    // Rounds whose model no node has any longer, because this node returned later, are not scored.
    for (Round round = newest_.value_or(0); newest_ && round + config_.lag >= *newest_; --round) {
      if (reports(round) && !verdicts_.contains(round) && !open_.contains(round)) {
        const Verdict unscored{round, Reason::none};
        for (Rank rank : live_workers(turn))
          if (rank != turn.self()) turn.send(rank, unscored, {}, kControl);
        decide(unscored);
      }
      if (round == 0) break;
    }
  }

  StopConfig config_;
  Reason reason_ = Reason::none;
  std::optional<Round> newest_;  // newest round_done
  std::uint64_t samples_ = 0;
  std::map<Round, std::vector<float>> open_;  // models without a verdict, at most lag + 1
  std::map<Round, std::uint64_t> counts_;     // samples, by those rounds
  std::map<Round, Reason> verdicts_;  // verdicts on the last lag + 1 + apart reported rounds
  std::set<Rank> unheard_;            // at a new reporter: nodes that have not sent Known
  // newest_ when the run was resumed. `report_every` may have changed: rounds up to this one that
  // were not reported then get no verdict.
  std::optional<Round> resumed_;
  bool settled_ = true;
};

}  // namespace longhaul
