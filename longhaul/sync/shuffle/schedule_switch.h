#pragma once
// ScheduleSwitch tells a worker of which view's workers the groups of a round are made, the same to
// all. Before the first loss it is all workers of the job.
//
// After a loss survivors see the new view in different rounds. Each reports to the others the round
// that it is in, and begins no later round before it has heard all of them. Up to the latest round
// reported the groups are what they were, less the lost; from the next round on they are made of
// the survivors. So no two workers name different groups in one round, and nobody waits for a group
// that another will not form.
//
// What a worker knows is a list of (view, first round of its schedule), whole up to some view. A
// report carries it: where a further loss comes before all have heard all, those who knew of the
// view before tell the others, and if nobody did, no survivor has used its schedule and it is
// skipped. Reports are n (n - 1) small messages a view; a worker computes while they come.
//
// A worker that has come back knows of no round: its reports are empty until it has heard the
// others in one view. It takes part from the first round on whose groups are made of workers of
// whom it is one again.
#include <map>
#include <optional>
#include <set>

#include "longhaul/core/machine.h"

namespace longhaul::sync::shuffle {

class ScheduleSwitch final : public Machine {
 public:
  struct Start {
    Epoch epoch = 0;            // of the view whose workers the schedule is of
    Round first = 0;            // round of it, up to that of a later view
    std::uint32_t workers = 0;  // how many
    friend bool operator==(const Start&, const Start&) = default;
    template <class Self, class Visit>
    static void fields(Self& self, Visit&& visit) {
      visit(Field{.name = "epoch"}, self.epoch);
      visit(Field{.name = "first", .max = 0x1p50}, self.first);
      visit(Field{.name = "workers"}, self.workers);
    }
  };
  struct RoundReport {
    static constexpr std::uint16_t kKind = 1;
    static constexpr std::string_view kName = "round_report";
    Epoch epoch = 0;            // of the view that it answers
    Round round = 0;            // the latest that the sender may have begun
    std::vector<Start> starts;  // ascending in the epoch; empty: of one that has come back
    template <class Self, class Visit>
    static void fields(Self& self, Visit&& visit) {
      visit(Field{.name = "epoch"}, self.epoch);
      visit(Field{.name = "round", .max = 0x1p50}, self.round);
      visit(Field{.name = "starts", .max = 4096}, self.starts);
    }
  };
  using Messages = MessageList<RoundReport>;

  // `apart`: the most rounds that a worker may be ahead of another.
  explicit ScheduleSwitch(Round apart) : apart_(apart) {}

  // This worker is in the round, the next after the last one.
  void enter(Round round) { round_ = round; }
  // Is it known here whose schedule the round is of? False: reports are missing.
  bool knows(Round round) const { return awaited_.empty() || round <= reported_; }
  // At one that has come back: the first round that it takes part in; nothing: not known yet.
  std::optional<Round> entry() const {
    return starts_.empty() || !awaited_.empty() ? std::nullopt : std::optional(round_);
  }
  // How many workers the groups of a round are made of, also of one before entry().
  std::uint32_t worker_count(Round) const;
  // Those of a round that is known: the view, and its workers, ascending.
  std::pair<Epoch, const std::vector<Rank>&> workers_of(Round) const;
  std::string waiting_for() const;  // "": nothing

  void on_start(Turn&) override;
  Status on_message(Rank from, const Message&, Turn&) override;
  void on_view(const View& before, Turn&) override;
  void state(Archive& ar) override {
    ar(round_, reported_, epoch_, workers_, starts_, awaited_, reports_);
  }

 private:
  Status check(Rank from, const RoundReport&, Rank self, const View&) const;
  const Start& start_of(Round) const;
  void settle(const Turn&);

  const Round apart_;
  Round round_ = 0;
  Round reported_ = 0;                          // in the newest view
  Epoch epoch_ = 0;                             // the newest view's
  std::map<Epoch, std::vector<Rank>> workers_;  // of views in starts_, and of those after them
  std::vector<Start> starts_;                   // whole up to the view of the last
  std::set<Rank> awaited_;                      // who has not reported in the newest view
  std::vector<RoundReport> reports_;            // in the newest view, until all are in
};

}  // namespace longhaul::sync::shuffle
