#pragma once
// StepCount counts the rounds of a run without a server, in which each worker has its own pace, and
// decides when the run ends. With N workers at the start, a round is N units of local steps, summed
// over all workers.
//
// Each worker reports its number of units to the senior worker. The senior worker sends the number
// of complete rounds, and the end of the run, to all workers. Every report_every rounds, its own
// model is scored. It does not wait for the score ([report] lag bounds the open scores). With
// Place::own_tests all workers report, and the score is the sum. A new senior receives the count
// and the known rounds of every worker. Units of a lost worker that only a lost senior knew are not
// counted. Each unit costs a message of a few bytes, and no worker waits for a message. A returned
// worker counts from 0; its units from before the loss stay counted.
#include <algorithm>
#include <map>
#include <set>

#include "longhaul/core/stop_rule.h"

namespace longhaul::sync::gossip {

class StepCount final : public Machine {
 public:
  using Reason = StopRule::Reason;
  struct Taken {  // to the senior: units and samples of the sender since the run began
    LONGHAUL_MESSAGE(1, "taken");
    std::uint64_t units = 0;
    std::uint64_t samples = 0;
    LONGHAUL_FIELDS((units, .max = 0x1p40), (samples, .max = 0x1p50))
  };
  struct RoundsDone {  // rounds of the run; from the senior to all workers, and to a new senior
    LONGHAUL_MESSAGE(2, "rounds_done");
    Round rounds = 0;
    Reason reason = Reason::none;  // reason of the end; none: the run continues
    LONGHAUL_FIELDS((rounds, .max = 0x1p50), (reason, .max = 4))
  };
  using Messages = MessageList<Taken, RoundsDone>;

  StepCount(const StopConfig& config, const Place& place)
      : config_(config),
        workers_(std::uint64_t(std::ranges::count_if(
            *place.members, [](const Member& member) { return member.is(Role::worker); }))) {}

  // Called when this worker has taken a unit.
  void took(std::uint64_t samples, Turn& turn) {
    ++own_.units;
    own_.samples += samples;
    if (is_senior(turn)) return count(turn.self(), own_, turn);
    if (!is_over()) turn.send(senior_worker(turn.place(), turn.view()), own_, {}, kControl);
  }

  std::uint64_t own() const { return own_.units; }
  Round rounds() const { return known_.rounds; }
  bool is_over() const { return known_.reason != Reason::none; }
  // Returns true if this worker has taken as many units as the whole run needs. It then takes no
  // more and waits for the end.
  bool has_taken_all() const { return own_.units / workers_ >= config_.max_rounds; }
  // Returns the round that this node must report() its model for: at the senior, or at all workers.
  std::optional<Round> due() const { return due_; }
  // `model`: null for the learner's.
  void report(Snapshot model, Turn& turn) {
    LH_CHECK(due_);
    if (is_senior(turn)) open_.insert(*due_);
    turn.report(*due_, std::move(model));
    due_.reset();
  }

  Status on_message(Rank from, const Message& message, Turn& turn) override {
    return dispatch(Messages{}, message, [&](const auto& m) -> Status {
      if (!turn.place().member(from).is(Role::worker)) return malformed("a count of no worker");
      if constexpr (std::is_same_v<std::decay_t<decltype(m)>, Taken>) {
        if (is_senior(turn)) count(from, m, turn);
      } else {
        if (m.rounds > config_.max_rounds) return malformed("more rounds than the run has");
        const bool counts = is_senior(turn) ? heirs_.erase(from) > 0
                                            : from == senior_worker(turn.place(), turn.view());
        if (!counts) return malformed("rounds of the run by who does not count them");
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

  // The senior before may have sent its rounds to none of the workers, or to some.
  void on_view(const View& before, Turn& turn) override {
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
      const RankList live = live_workers(turn);
      heirs_ = {live.begin(), live.end()};
      count(senior, own_, turn);
      return tell_all(turn);
    }
    turn.send(senior, own_, {}, kControl);
    turn.send(senior, known_, {}, kControl);
  }

  void on_scored(Round round, const Evaluation& evaluation, Turn& turn) override {
    if (open_.erase(round) == 0 || is_over() || !is_senior(turn)) return;
    if (!config_.reached(evaluation)) return;
    known_.reason = Reason::target;
    tell_all(turn);
  }

  void state(Archive& ar) override { ar(own_, taken_, before_, known_, due_, open_, heirs_); }

 private:
  // Called at the senior. Counts only grow, so repeated or late messages change nothing.
  void count(Rank from, const Taken& taken, Turn& turn) {
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

  void tell_all(Turn& turn) {
    for (const Rank rank : live_workers(turn))
      if (rank != turn.self()) turn.send(rank, known_, {}, kControl);
  }

  // Returns the newest report that is due after `before` rounds and up to `now` rounds.
  std::optional<Round> report_between(Round before, Round now) const {
    const Round every = config_.report_every;
    if (now / every <= before / every) return std::nullopt;
    return now / every * every - 1;
  }

  const StopConfig config_;
  const std::uint64_t workers_;  // at the start of the run
  Taken own_;
  std::map<Rank, Taken> taken_;   // at the senior
  std::map<Rank, Taken> before_;  // the same, of returned workers before their loss
  RoundsDone known_;
  std::optional<Round> due_;
  std::set<Round> open_;  // reported and not scored, at most lag + 1
  std::set<Rank> heirs_;  // at a new senior: workers that may still send the rounds of the last one
};

}  // namespace longhaul::sync::gossip
