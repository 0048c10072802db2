#include "longhaul/sync/gossip/step_count.h"

#include <algorithm>

namespace longhaul::sync::gossip {

StepCount::StepCount(const StopConfig& config, const Place& place)
    : config_(config),
      workers_(std::uint64_t(std::ranges::count_if(
          *place.members, [](const Member& member) { return member.is(Role::worker); }))) {}

void StepCount::took(std::uint64_t samples, Turn& turn) {
  ++own_.units;
  own_.samples += samples;
  if (is_senior(turn)) return count(turn.self(), own_, turn);
  if (!is_over()) turn.send(senior_worker(turn.place(), turn.view()), own_, {}, kControl);
}

// Of the senior. Counts only grow: what comes twice or late changes nothing.
void StepCount::count(Rank from, const Taken& taken, Turn& turn) {
  Taken& of = taken_[from];
  of.units = std::max(of.units, taken.units);
  of.samples = std::max(of.samples, taken.samples);
  if (is_over()) return;
  std::uint64_t units = 0, samples = 0;
  for (const auto* some : {&taken_, &before_})
    for (const auto& [rank, one] : *some) units += one.units, samples += one.samples;
  const Round rounds = std::min(units / workers_, config_.max_rounds);
  if (rounds <= known_.rounds) return;
  const auto report = report_between(known_.rounds, rounds);
  known_.rounds = rounds;
  if (report && open_.size() <= config_.lag) due_ = report;
  if (rounds >= config_.max_rounds) {
    known_.reason = Reason::max_rounds;
  } else if (config_.max_hours && seconds(turn.now()) >= *config_.max_hours * 3600) {
    known_.reason = Reason::max_hours;
  } else if (config_.max_samples > 0 && samples >= config_.max_samples) {
    known_.reason = Reason::max_samples;
  }
  tell_all(turn);
}

void StepCount::tell_all(Turn& turn) {
  for (const Rank rank : live_with(Role::worker, turn.place(), turn.view()))
    if (rank != turn.self()) turn.send(rank, known_, {}, kControl);
}

std::optional<Round> StepCount::report_between(Round before, Round now) const {
  const Round every = config_.report_every;
  if (now / every <= before / every) return std::nullopt;
  return now / every * every - 1;
}

void StepCount::report(Snapshot model, Turn& turn) {
  LH_CHECK(due_);
  if (is_senior(turn)) open_.insert(*due_);
  turn.report(*due_, std::move(model));
  due_.reset();
}

void StepCount::on_scored(Round round, const Evaluation& evaluation, Turn& turn) {
  if (open_.erase(round) == 0 || is_over() || !is_senior(turn)) return;
  if (!config_.reached(evaluation)) return;
  known_.reason = Reason::target;
  tell_all(turn);
}

Status StepCount::on_message(Rank from, const Message& message, Turn& turn) {
  return dispatch(Messages{}, message, [&](const auto& m) -> Status {
    if (!turn.place().member(from).is(Role::worker)) return malformed("a count of no worker");
    if constexpr (std::is_same_v<std::decay_t<decltype(m)>, Taken>) {
      if (is_senior(turn)) count(from, m, turn);
    } else {
      if (m.rounds > config_.max_rounds) return malformed("more rounds than the run has");
      if (is_over() || (m.rounds <= known_.rounds && m.reason == Reason::none)) return Ok{};
      if (const auto report = report_between(known_.rounds, m.rounds);
          report && turn.place().own_tests)
        due_ = report;
      known_ = {std::max(known_.rounds, m.rounds), m.reason};
      if (is_senior(turn)) tell_all(turn);
    }
    return Ok{};
  });
}

// The one before may have told nobody, or a part of them.
void StepCount::on_view(const View& before, Turn& turn) {
  const Rank senior = senior_worker(turn.place(), turn.view());
  if (senior == turn.self())
    for (const auto& [rank, epoch] : turn.view().returned) {
      if (epoch != turn.view().epoch || !turn.place().member(rank).is(Role::worker)) continue;
      const Taken gone = std::exchange(taken_[rank], {});
      before_[rank].units += gone.units;
      before_[rank].samples += gone.samples;
      turn.send(rank, known_, {}, kControl);
    }
  if (senior == senior_worker(turn.place(), before)) return;
  if (senior == turn.self()) {
    count(senior, own_, turn);
    return tell_all(turn);
  }
  turn.send(senior, own_, {}, kControl);
  turn.send(senior, known_, {}, kControl);
}

}  // namespace longhaul::sync::gossip
