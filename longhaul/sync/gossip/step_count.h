#pragma once
// StepCount counts the rounds of a run without a server in which each worker goes at its own pace,
// and says when the run ends. A round is as many units of local steps, of all workers together, as
// there are workers at the start.
//
// Each worker tells the senior worker how many units it has taken; the senior tells all when a
// round is complete and when the run is over: it has its own model scored every report_every rounds
// and does not wait for the score ([report] lag bounds how many are open). With Place::own_tests
// all report, and the score is the sum. A worker tells a new senior what it has taken and what it
// knows. What only a lost senior knew of a lost worker is not counted. Units tell a few bytes each;
// nobody waits for a message. A worker that comes back counts from 0 on; what it had taken before
// it was lost stays counted.
#include <map>
#include <set>

#include "longhaul/core/stop_rule.h"

namespace longhaul::sync::gossip {

class StepCount final : public Machine {
 public:
  using Reason = StopRule::Reason;
  struct Taken {  // to the senior: by the sender, since the run began
    static constexpr std::uint16_t kKind = 1;
    static constexpr std::string_view kName = "taken";
    std::uint64_t units = 0;
    std::uint64_t samples = 0;
    template <class Self, class Visit>
    static void fields(Self& self, Visit&& visit) {
      visit(Field{.name = "units", .max = 0x1p40}, self.units);
      visit(Field{.name = "samples", .max = 0x1p50}, self.samples);
    }
  };
  struct RoundsDone {  // of the run; from the senior to all, and to a new senior
    static constexpr std::uint16_t kKind = 2;
    static constexpr std::string_view kName = "rounds_done";
    Round rounds = 0;
    Reason reason = Reason::none;  // else the run is over
    template <class Self, class Visit>
    static void fields(Self& self, Visit&& visit) {
      visit(Field{.name = "rounds", .max = 0x1p50}, self.rounds);
      visit(Field{.name = "reason", .max = 4}, self.reason);
    }
  };
  using Messages = MessageList<Taken, RoundsDone>;

  StepCount(const StopConfig&, const Place&);

  // This worker has taken a unit.
  void took(std::uint64_t samples, Turn&);
  std::uint64_t own() const { return own_.units; }
  Round rounds() const { return known_.rounds; }
  bool is_over() const { return known_.reason != Reason::none; }
  // A worker that has taken as many units as the whole run has takes no more: it waits for the end.
  bool has_taken_all() const { return own_.units / workers_ >= config_.max_rounds; }
  // The round that this node is to report() its model for; of the senior, or of all.
  std::optional<Round> due() const { return due_; }
  void report(Snapshot model, Turn&);  // null: the learner's

  Status on_message(Rank from, const Message&, Turn&) override;
  void on_view(const View& before, Turn&) override;
  void on_scored(Round, const Evaluation&, Turn&) override;
  void state(Archive& ar) override { ar(own_, taken_, before_, known_, due_, open_); }

 private:
  bool is_senior(const Turn& turn) const {
    return senior_worker(turn.place(), turn.view()) == turn.self();
  }
  void count(Rank from, const Taken&, Turn&);
  void tell_all(Turn&);
  // The newest report that is due between so many rounds and so many.
  std::optional<Round> report_between(Round before, Round now) const;

  const StopConfig config_;
  const std::uint64_t workers_;  // at the start of the run
  Taken own_;
  std::map<Rank, Taken> taken_;   // at the senior
  std::map<Rank, Taken> before_;  // the same, by those that came back, before they were lost
  RoundsDone known_;
  std::optional<Round> due_;
  std::set<Round> open_;  // reported and not scored, at most lag + 1
};

}  // namespace longhaul::sync::gossip
