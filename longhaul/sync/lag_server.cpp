// The server's side of LAG.
#include <algorithm>
#include <cmath>
#include <iterator>

#include "longhaul/sync/lag.h"

namespace longhaul::sync {

Status Lag::admit_answer(Rank from, const LagHeader& header) {
  const bool is_due = std::find(awaited_.begin(), awaited_.end(), from) != awaited_.end() &&
                      (header.kind == Kind::resume) == (phase_ == Phase::resuming) &&
                      (header.kind == Kind::resume || header.round == round_);
  if (!is_due || !admitted_.insert(from).second)
    return malformed("an answer that nobody waits for, or a second one");
  return Ok{};
}

void Lag::serve(Rank from, const LagHeader& header, Model values, Turn&) {
  answers_[from] = {header, std::move(values)};
}

// All who are awaited have answered, or are lost.
void Lag::advance(Turn& turn) {
  while (!has_failed_ && (phase_ == Phase::resuming || phase_ == Phase::collecting)) {
    for (const Rank rank : awaited_)
      if (!answers_.contains(rank)) return;
    if (phase_ == Phase::collecting) {
      end_round(turn);
    } else if (!resume_newest(turn)) {
      return;
    }
    if (!has_failed_) is_over_ ? end_run(turn) : begin_round(turn);
  }
}

// The newest model that a live node knows; of equal ones the lowest rank's. False: there is none.
bool Lag::resume_newest(Turn& turn) {
  if (answers_.empty()) return false;  // all who are awaited are lost: a view will say who follows
  const Answer* newest = nullptr;
  for (const auto& [rank, one] : answers_) {
    is_over_ |= one.header.has_ended;
    used_ = std::max(used_, one.header.samples);
    if (one.header.knows_model && (!newest || one.header.round > newest->header.round))
      newest = &one;
  }
  const bool own_is_newest = knows_model_ && (!newest || round_ > newest->header.round);
  if (!newest && !own_is_newest) {
    fail(state_lost("all sites that knew the model are lost; resume from a checkpoint"), turn);
    return false;
  }
  if (!own_is_newest) round_ = newest->header.round;
  descent_.begin(own_is_newest ? theta_ : newest->delta);
  return true;
}

void Lag::begin_round(Turn& turn) {
  phase_ = Phase::collecting;
  admitted_.clear();
  answers_.clear();
  const std::vector<Rank> live = live_workers();
  const auto asked = descent_.asked(live, turn.random(Purpose::members, round_, 0));
  // The loss is known where all compute: for `least` in the rounds that are reported.
  const bool all_compute = config_.least && (round_ + 1) % stop_.report_every == 0;
  awaited_ = all_compute ? live : asked;
  if (!is_worker()) theta_ = descent_.model();
  knows_model_ = true;
  LagHeader ask{.kind = Kind::model,
                .round = round_,
                .must_upload = descent_.must_upload(),
                .rhs = descent_.rhs(live.size()),
                .samples = used_};
  if (!asked.empty()) send(asked, ask, &descent_.model(), turn);
  std::vector<Rank> others;
  std::ranges::set_difference(awaited_, asked, std::back_inserter(others));
  ask.must_upload = false;
  ask.rhs = LagHeader::kMost;  // nothing moves as far
  if (!others.empty()) send(others, ask, &descent_.model(), turn);
}

void Lag::end_round(Turn& turn) {
  double objective = 0;
  std::uint64_t uploads = 0;
  for (const auto& [rank, one] : answers_) {  // in rank order
    objective += one.header.objective;
    used_ += one.header.samples;
    if (!view_.has(rank) || one.header.kind == Kind::skip) continue;
    descent_.upload(rank, one.delta, one.header.smoothness);
    ++uploads;
  }
  const std::size_t live = live_workers().size();
  turn.record("uploads", round_, double(uploads));
  if (answers_.size() == live && !place_.phantom) {
    turn.record("objective", round_, objective);
    is_over_ |= config_.least && objective - *config_.least < config_.tolerance;
  }
  descent_.step(live);
  ++round_;
  theta_ = descent_.model();
  for (const double v : theta_)
    if (!std::isfinite(v))
      return fail(not_finite("the model is not finite; set a larger [sync] smoothness"), turn);
  if (round_ % stop_.report_every == 0 && open_.size() <= stop_.lag) {
    open_.insert(round_ - 1);
    auto model = std::make_shared<std::vector<float>>();
    if (stop_.snapshots) {
      for (const double v : theta_) model->push_back(float(v));
      model->resize(place_.layout->size());
    }
    turn.report(round_ - 1, std::move(model));
  }
  is_over_ |= round_ >= stop_.max_rounds ||
              (stop_.max_hours && seconds(turn.now()) >= *stop_.max_hours * 3600) ||
              (stop_.max_samples > 0 && used_ >= stop_.max_samples);
}

void Lag::on_scored(Round round, const Evaluation& evaluation, Turn&) {
  if (open_.erase(round) > 0) is_over_ |= stop_.reached(evaluation);
}

// All workers have the same model; a worker that had it before has it still.
void Lag::end_run(Turn& turn) {
  phase_ = Phase::ended;
  awaited_.clear();
  std::vector<Rank> to;
  for (const auto& rank : live_workers()) {
    const auto one = answers_.find(rank);
    if (one == answers_.end() || !one->second.header.has_ended) to.push_back(rank);
  }
  theta_ = descent_.model();
  if (!to.empty()) send(to, {.kind = Kind::end, .round = round_, .samples = used_}, &theta_, turn);
  if (!is_worker() && !std::exchange(has_ended_, true)) turn.finish();
}

}  // namespace longhaul::sync
