#pragma once
// ScoreSum adds up scores if every site has its own test samples. Each worker has its copy of the
// model scored on them and sends the score to the senior worker. The senior adds loss, hits and
// samples in rank order, and sends the sum to all nodes. At the end of the run every worker sends
// its part to all nodes.
//
// A worker without samples sends an empty score. A worker that returned while others scored may not
// know their rounds: the senior waits for its parts only from the first one on. A new senior
// receives again all parts without a sum. Between sums this node keeps at most kMostOpen rounds per
// worker.
#include <map>
#include <optional>

#include "longhaul/base/queue.h"
#include "longhaul/core/machine.h"
#include "longhaul/core/sample_count.h"

namespace longhaul {

class ScoreSum final : public Machine {
 public:
  static constexpr ChildName kName{3, "scores"};  // as a child of the node
  static constexpr Round kAtEnd = Round(-1);      // the final model of a node
  static constexpr std::size_t kMostOpen = 1024;

  struct Part {
    LONGHAUL_MESSAGE(1, "part");
    Round round = 0;
    double loss = 0;
    double accuracy = 0;
    std::uint64_t samples = 0;
    bool has_accuracy = false;
    LONGHAUL_FIELDS(round, loss, (accuracy, .min = 0, .max = 1), (samples, .max = kMostSamples),
                    has_accuracy)

    static Part of(Round round, const Evaluation& score) {
      return {round, score.loss, score.accuracy.value_or(0), score.samples,
              score.accuracy.has_value()};
    }
    Evaluation evaluation() const {
      return {loss, has_accuracy ? std::optional(accuracy) : std::nullopt, samples};
    }
  };
  struct Total : Part {  // sum of all parts; from the senior to all nodes
    LONGHAUL_MESSAGE(2, "total");
  };
  using Messages = MessageList<Part, Total>;

  // Adds the score of this node's copy of the round's model on its own samples.
  void scored(Round round, const Evaluation& evaluation, Turn& turn) {
    if (!turn.place().me().is(Role::worker)) return;
    // A returned node may receive the sum before it has scored its own part.
    if (newest_ && round != kAtEnd && round <= *newest_) return;
    own_[round] = evaluation;
    while (own_.size() > kMostOpen) own_.erase(own_.begin());
    tell(round, evaluation, turn);
    note(turn.self(), round, evaluation, turn);
  }

  struct Sum {
    Round round = 0;
    Rank senior = 0;  // the author of the sum
    Evaluation evaluation;
    void state(auto& archive) { archive(round, senior, evaluation); }
  };
  // Returns the next sum, in ascending order of rounds.
  std::optional<Sum> take() {
    if (sums_.empty()) return std::nullopt;
    const Sum first = sums_.front();
    sums_.pop_front();
    return first;
  }

  // Returns true if all live workers have sent the score of their final model.
  bool ended(const Place& place, const View& view) const {
    for (const Rank rank : live_with(Role::worker, place, view))
      if (!at_end_.contains(rank)) return false;
    return true;
  }

  // Returns the scores of the final models by rank, including this node's.
  const std::map<Rank, Evaluation>& at_end() const { return at_end_; }
  // The accuracy is absent if that of one part is.
  static Evaluation sum(const std::map<Rank, Evaluation>& by_rank) {
    Evaluation all{.accuracy = 0.0};
    double weight = 0;
    for (const auto& [rank, one] : by_rank) {
      const double samples = double(one.samples);
      if (one.samples == 0) continue;  // a loss over no samples may not be a number
      all.loss += one.loss * samples;
      if (!one.accuracy) all.accuracy.reset();
      if (all.accuracy) *all.accuracy += *one.accuracy * samples;
      weight += samples;
      all.samples = plus_samples(all.samples, samples);
    }
    if (weight == 0) return {};
    all.loss /= weight;
    if (all.accuracy) all.accuracy = std::min(*all.accuracy / weight, 1.0);
    return all;
  }

  // Returns true if this node has the score of its final model.
  bool has_said_end() const { return own_.contains(kAtEnd); }

  Status on_message(Rank from, const Message& message, Turn& turn) override {
    return dispatch(Messages{}, message, [&](const auto& m) -> Status {
      if (!turn.place().member(from).is(Role::worker))
        return malformed("a score of a node that is no worker");
      const Evaluation evaluation = m.evaluation();
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

  // The senior may be new, or may lack the parts of lost nodes.
  void on_view(const View& before, Turn& turn) override {
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
    // Returned nodes have not received the final scores of the others.
    if (const auto end = own_.find(kAtEnd); end != own_.end())
      for (const auto& [rank, since] : view.returned)
        if (since == view.epoch && rank != turn.self())
          turn.send(rank, Part::of(kAtEnd, end->second), {}, kControl);
  }

  void state(Archive& ar) override { ar(own_, parts_, at_end_, sums_, heard_, newest_); }

 private:
  void tell(Round round, const Evaluation& evaluation, Turn& turn) const {
    const Part part = Part::of(round, evaluation);
    const auto say = [&](Rank rank) {
      if (rank != turn.self()) turn.send(rank, part, {}, kControl);
    };
    if (round != kAtEnd) return say(senior_worker(turn.place(), turn.view()));
    for (const Rank rank : turn.view().live) say(rank);
  }

  void note(Rank from, Round round, const Evaluation& evaluation, Turn& turn) {
    if (round == kAtEnd) {
      at_end_[from] = evaluation;
      return;
    }
    if (newest_ && round <= *newest_) return;
    if (!is_senior(turn)) return;  // otherwise the sender repeats it
    if (const Epoch since = turn.view().since(from); since > 0) {
      auto& [epoch, first] = heard_[from];
      first = epoch < since ? round : std::min(first, round);
      epoch = since;
    }
    parts_[round][from] = evaluation;
    while (parts_.size() > kMostOpen) parts_.erase(parts_.begin());
    settle(turn);
  }

  bool complete(Round round, const std::map<Rank, Evaluation>& parts, const Turn& turn) const {
    if (!parts.contains(turn.self())) return false;
    for (const Rank rank : live_workers(turn)) {
      if (parts.contains(rank)) continue;
      const Epoch since = turn.view().since(rank);
      const auto heard = heard_.find(rank);
      const bool may_know_nothing =
          since > 0 &&
          (heard == heard_.end() || heard->second.first < since || round < heard->second.second);
      if (!may_know_nothing) return false;
    }
    return true;
  }

  void settle(Turn& turn) {
    for (auto it = parts_.begin(); it != parts_.end(); it = parts_.begin()) {
      while (it != parts_.end() && !complete(it->first, it->second, turn)) ++it;
      if (it == parts_.end()) return;
      const Round round = it->first;
      const Evaluation all = sum(it->second);
      for (const Rank rank : turn.view().live)
        if (rank != turn.self()) turn.send(rank, Total{Part::of(round, all)}, {}, kControl);
      learn({round, turn.self(), all});
    }
  }

  // Earlier rounds without a sum get none: a node has skipped their report.
  void learn(const Sum& sum) {
    if (!newest_ || sum.round > *newest_) {
      newest_ = sum.round;
      sums_.push_back(sum);
    }
    own_.erase(own_.begin(), own_.upper_bound(sum.round));
    parts_.erase(parts_.begin(), parts_.upper_bound(sum.round));
  }

  std::map<Round, Evaluation> own_;                    // rounds after the newest sum
  std::map<Round, std::map<Rank, Evaluation>> parts_;  // at the senior
  std::map<Rank, Evaluation> at_end_;
  Queue<Sum> sums_;              // not taken yet
  std::optional<Round> newest_;  // round of the newest known sum
  // Returned workers with a part: their epoch of return, and the first round that they scored.
  std::map<Rank, std::pair<Epoch, Round>> heard_;
};

}  // namespace longhaul
