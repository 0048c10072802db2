#include "longhaul/core/score_sum.h"

namespace longhaul {

Evaluation ScoreSum::sum(const std::map<Rank, Evaluation>& by_rank) {
  Evaluation all;
  for (const auto& [rank, one] : by_rank) {
    const double samples = double(one.samples);
    if (one.samples == 0) continue;  // a loss of nothing may be no number
    all.loss += one.loss * samples;
    all.accuracy += one.accuracy * samples;
    all.samples += one.samples;
  }
  if (all.samples == 0) return {};
  all.loss /= double(all.samples);
  all.accuracy /= double(all.samples);
  return all;
}

void ScoreSum::scored(Round round, const Evaluation& evaluation, Turn& turn) {
  if (!turn.place().me().is(Role::worker)) return;
  // One that has just returned may hear the sum before it has scored its own part.
  if (newest_ && round != kAtEnd && round <= *newest_) return;
  own_[round] = evaluation;
  while (own_.size() > kMostOpen) own_.erase(own_.begin());
  tell(round, evaluation, turn);
  note(turn.self(), round, evaluation, turn);
}

void ScoreSum::tell(Round round, const Evaluation& evaluation, Turn& turn) const {
  const Part part{round, evaluation.loss, evaluation.accuracy, evaluation.samples};
  const auto say = [&](Rank rank) {
    if (rank != turn.self()) turn.send(rank, part, {}, kControl);
  };
  if (round != kAtEnd) return say(senior_worker(turn.place(), turn.view()));
  for (const Rank rank : turn.view().live) say(rank);
}

void ScoreSum::note(Rank from, Round round, const Evaluation& evaluation, Turn& turn) {
  if (round == kAtEnd) {
    at_end_[from] = evaluation;
    return;
  }
  if (newest_ && round <= *newest_) return;
  if (senior_worker(turn.place(), turn.view()) != turn.self()) return;  // or it will be told again
  if (const Epoch since = turn.view().since(from); since > 0) heard_[from] = since;
  parts_[round][from] = evaluation;
  while (parts_.size() > kMostOpen) parts_.erase(parts_.begin());
  settle(turn);
}

bool ScoreSum::complete(const std::map<Rank, Evaluation>& parts, const Turn& turn) const {
  if (!parts.contains(turn.self())) return false;
  for (const Rank rank : live_with(Role::worker, turn.place(), turn.view())) {
    if (parts.contains(rank)) continue;
    const Epoch since = turn.view().since(rank);
    const auto heard = heard_.find(rank);
    const bool may_know_nothing = since > 0 && (heard == heard_.end() || heard->second < since);
    if (!may_know_nothing) return false;
  }
  return true;
}

void ScoreSum::settle(Turn& turn) {
  for (auto it = parts_.begin(); it != parts_.end(); it = parts_.begin()) {
    while (it != parts_.end() && !complete(it->second, turn)) ++it;
    if (it == parts_.end()) return;
    const Round round = it->first;
    const Evaluation all = sum(it->second);
    for (const Rank rank : turn.view().live)
      if (rank != turn.self())
        turn.send(rank, Total{{round, all.loss, all.accuracy, all.samples}}, {}, kControl);
    learn({round, turn.self(), all});
  }
}

// Rounds before it that have no sum get none: somebody left their report out.
void ScoreSum::learn(const Sum& sum) {
  if (!newest_ || sum.round > *newest_) {
    newest_ = sum.round;
    sums_.push_back(sum);
  }
  own_.erase(own_.begin(), own_.upper_bound(sum.round));
  parts_.erase(parts_.begin(), parts_.upper_bound(sum.round));
}

std::optional<ScoreSum::Sum> ScoreSum::take() {
  if (sums_.empty()) return std::nullopt;
  const Sum first = sums_.front();
  sums_.pop_front();
  return first;
}

bool ScoreSum::ended(const Place& place, const View& view) const {
  for (const Rank rank : live_with(Role::worker, place, view))
    if (!at_end_.contains(rank)) return false;
  return true;
}

Status ScoreSum::on_message(Rank from, const Message& message, Turn& turn) {
  return dispatch(Messages{}, message, [&](const auto& m) -> Status {
    if (!turn.place().member(from).is(Role::worker))
      return malformed("a score of a node that is no worker");
    const Evaluation evaluation{m.loss, m.accuracy, m.samples};
    if constexpr (std::is_same_v<std::decay_t<decltype(m)>, Part>) {
      note(from, m.round, evaluation, turn);
    } else {
      if (m.round == kAtEnd) return malformed("a sum of the end, which every node makes itself");
      if (from != senior_worker(turn.place(), turn.view()))
        return malformed("a sum of scores of a node that is not the senior worker");
      learn({m.round, from, evaluation});
    }
    return Ok{};
  });
}

// The senior may be new, or have been left without the parts of the lost.
void ScoreSum::on_view(const View& before, Turn& turn) {
  const View& view = turn.view();
  for (const auto& [rank, since] : view.returned)
    if (since == view.epoch) at_end_.erase(rank);
  if (const Rank senior = senior_worker(turn.place(), view); senior != turn.self()) {
    parts_.clear();
    if (senior != senior_worker(turn.place(), before) || view.since(senior) == view.epoch)
      for (const auto& [round, evaluation] : own_)
        if (round != kAtEnd) tell(round, evaluation, turn);
  } else {
    for (const auto& [round, evaluation] : own_)
      if (round != kAtEnd) parts_[round][turn.self()] = evaluation;
    for (auto& [round, parts] : parts_)
      std::erase_if(parts, [&](const auto& part) { return !view.has(part.first); });
    settle(turn);
  }
  // Those who came back have not heard how the others end.
  if (const auto end = own_.find(kAtEnd); end != own_.end())
    for (const auto& [rank, since] : view.returned)
      if (since == view.epoch && rank != turn.self())
        turn.send(rank, Part{kAtEnd, end->second.loss, end->second.accuracy, end->second.samples},
                  {}, kControl);
}

}  // namespace longhaul
