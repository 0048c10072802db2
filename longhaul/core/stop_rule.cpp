#include "longhaul/core/stop_rule.h"

#include <algorithm>

namespace longhaul {

bool StopConfig::reached(const Evaluation& evaluation) const {
  return (target_accuracy && evaluation.accuracy >= *target_accuracy) ||
         (target_loss && evaluation.loss <= *target_loss);
}

bool StopRule::is_reporter(const Turn& turn) const {
  return senior_worker(turn.place(), turn.view()) == turn.self() && unheard_.empty();
}

void StopRule::round_done(Round round, std::span<const float> model, std::uint64_t samples,
                          Turn& turn) {
  if (!settled_) settle_unknown(turn);
  newest_ = round;
  samples_ = samples;
  if (!reports(round) || verdicts_.contains(round)) return;
  open_[round].assign(model.begin(), model.end());
  counts_[round] = samples;
  if (is_reporter(turn) || turn.place().own_tests) ask(round, turn);
}

bool StopRule::is_unknown(Round round) const {
  return resumed_ && round <= *resumed_ && reports(round) && !verdicts_.contains(round) &&
         !open_.contains(round);
}

// Others may be behind this node, and wait for a verdict on a round that it did not report.
void StopRule::settle_unknown(Turn& turn) {
  settled_ = true;
  if (!is_reporter(turn) || !resumed_) return;
  const Round kept = config_.lag + config_.apart;
  for (Round round = *resumed_ - std::min(*resumed_, kept); round <= *resumed_; ++round) {
    if (!is_unknown(round)) continue;
    const Verdict none{round, Reason::none};
    for (Rank rank : live_with(Role::worker, turn.place(), turn.view()))
      if (rank != turn.self()) turn.send(rank, none, {}, kControl);
    decide(none);
  }
}

void StopRule::ask(Round round, Turn& turn) {
  Snapshot model;
  if (config_.snapshots) model = std::make_shared<const std::vector<float>>(open_.at(round));
  turn.report(round, model);
}

StopRule::Step StopRule::after(Round round) {
  if (round >= config_.lag) {
    // The newest round that was reported at least `lag` rounds ago.
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

void StopRule::on_scored(Round round, const Evaluation& evaluation, Turn& turn) {
  if (!is_reporter(turn) || verdicts_.contains(round) || !open_.contains(round)) return;
  Verdict verdict{round, Reason::none};
  if (config_.reached(evaluation)) {
    verdict.reason = Reason::target;
  } else if (config_.max_hours && seconds(turn.now()) >= *config_.max_hours * 3600) {
    verdict.reason = Reason::max_hours;
  } else if (config_.reporter_counts && uses_up(counts_[round])) {
    verdict.reason = Reason::max_samples;
  }
  for (Rank rank : live_with(Role::worker, turn.place(), turn.view()))
    if (rank != turn.self()) turn.send(rank, verdict, {}, kControl);
  decide(verdict);
}

void StopRule::decide(const Verdict& verdict) {
  verdicts_.emplace(verdict.round, verdict.reason);
  open_.erase(verdict.round);
  counts_.erase(verdict.round);
  while (verdicts_.size() > config_.lag + 1 + config_.apart) verdicts_.erase(verdicts_.begin());
}

Status StopRule::on_message(Rank from, const Message& message, Turn& turn) {
  // A reporter is at most `apart` rounds ahead of anybody, and `lag` reports ahead of none.
  const Round furthest = newest_.value_or(0) + config_.lag + 1 + config_.apart;
  const bool anew =
      turn.view().since(turn.self()) > 0 && !newest_;  // has not heard how far the others are
  auto check = [&](const Verdict& v) -> Status {
    if ((v.round > furthest && !anew) || !reports(v.round))
      return malformed("a verdict on round " + std::to_string(v.round) + ", which is not due");
    return Ok{};
  };
  return dispatch(Messages{}, message, [&](const auto& m) -> Status {
    if constexpr (std::is_same_v<std::decay_t<decltype(m)>, Verdict>) {
      LH_TRY(check(m));
      decide(m);
    } else {
      if (m.epoch != turn.view().epoch) return Ok{};
      if (m.verdicts.size() > config_.lag + 1 + config_.apart)  // more than a node keeps
        return malformed("verdicts on " + std::to_string(m.verdicts.size()) + " rounds");
      for (const Verdict& v : m.verdicts) LH_TRY(check(v));
      for (const Verdict& v : m.verdicts) decide(v);
      if (unheard_.erase(from) > 0 && unheard_.empty()) take_over(turn);
    }
    return Ok{};
  });
}

void StopRule::on_view(const View& before, Turn& turn) {
  const Rank reporter = senior_worker(turn.place(), turn.view());
  if (reporter != turn.self()) {
    // Always: the reporter may have been asking in the last view, and starts anew in this one.
    Known known{turn.view().epoch, {}};
    for (auto [round, reason] : verdicts_) known.verdicts.push_back({round, reason});
    turn.send(reporter, known, {}, kControl);
    return;
  }
  if (senior_worker(turn.place(), before) == turn.self() && unheard_.empty()) return;
  unheard_.clear();
  for (Rank rank : live_with(Role::worker, turn.place(), turn.view()))
    if (rank != turn.self()) unheard_.insert(rank);
  if (unheard_.empty()) take_over(turn);
}

// All survivors were heard: what nobody has a verdict on was acted on by nobody.
void StopRule::take_over(Turn& turn) {
  for (Rank rank : live_with(Role::worker, turn.place(), turn.view()))
    for (auto [round, reason] : verdicts_)
      if (rank != turn.self()) turn.send(rank, Verdict{round, reason}, {}, kControl);
  for (const auto& [round, model] : open_) ask(round, turn);
  // Models that nobody has any more, this node having come back after them, are scored by nobody.
  for (Round round = newest_.value_or(0); newest_ && round + config_.lag >= *newest_; --round) {
    if (reports(round) && !verdicts_.contains(round) && !open_.contains(round)) {
      const Verdict unscored{round, Reason::none};
      for (Rank rank : live_with(Role::worker, turn.place(), turn.view()))
        if (rank != turn.self()) turn.send(rank, unscored, {}, kControl);
      decide(unscored);
    }
    if (round == 0) break;
  }
}

void StopRule::hand_over(Archive& ar) {
  auto verdicts = verdicts_;
  ar(reason_, newest_, samples_, verdicts);
  for (const auto& [round, reason] : verdicts) decide({round, reason});
}

std::string StopRule::waiting_for() const {
  return open_.empty() ? "" : "the verdict on round " + std::to_string(open_.begin()->first);
}

void StopRule::state(Archive& ar) {
  ar(reason_, newest_, samples_, open_, counts_, verdicts_, unheard_);
  if (!ar.loading()) return;
  resumed_ = newest_;
  settled_ = false;
}

}  // namespace longhaul
