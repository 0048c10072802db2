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
// A plan of which sites are slow (site_rates.h) goes the same way, within a view: the planner
// reports it with its number, whoever hears of it reports, too, and when all have heard all, it
// holds from the round after the latest reported on. A view keeps the plan of the one before it,
// and a plan that a loss came into the middle of is skipped.
//
// A worker that has come back knows of no round: its reports are empty until it has heard the
// others in one view. It takes part from the first round on whose groups are made of workers of
// whom it is one again.
#include <map>
#include <optional>
#include <set>

#include "longhaul/sync/shuffle/site_rates.h"

namespace longhaul::sync::shuffle {

class ScheduleSwitch final : public Machine {
 public:
  static constexpr double kMostSlow = 4096;
  struct Start {
    Epoch epoch = 0;            // of the view whose workers the schedule is of
    Round first = 0;            // round of it, up to that of a later view
    std::uint32_t workers = 0;  // how many
    std::uint32_t plan = 0;     // of this view; 0: the one that held before
    SlowSites slow = {};        // by that plan
    friend bool operator==(const Start&, const Start&) = default;
    template <class Self, class Visit>
    static void fields(Self& self, Visit&& visit) {
      visit(Field{.name = "epoch"}, self.epoch);
      visit(Field{.name = "first", .max = 0x1p50}, self.first);
      visit(Field{.name = "workers"}, self.workers);
      visit(Field{.name = "plan"}, self.plan);
      visit(Field{.name = "slow", .max = kMostSlow}, self.slow);
    }
  };
  struct RoundReport {
    static constexpr std::uint16_t kKind = 1;
    static constexpr std::string_view kName = "round_report";
    Epoch epoch = 0;            // of the view that it answers
    Round round = 0;            // the latest that the sender may have begun
    std::vector<Start> starts;  // ascending; empty: of one that has come back
    std::uint32_t plan = 0;     // of that view, that it answers or proposes; 0: the view alone
    SlowSites slow = {};        // what the plan says
    template <class Self, class Visit>
    static void fields(Self& self, Visit&& visit) {
      visit(Field{.name = "epoch"}, self.epoch);
      visit(Field{.name = "round", .max = 0x1p50}, self.round);
      visit(Field{.name = "starts", .max = 4096}, self.starts);
      visit(Field{.name = "plan"}, self.plan);
      visit(Field{.name = "slow", .max = kMostSlow}, self.slow);
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
  const Start& start_of(Round) const;  // of a round that is known
  // The newest plan that is known here; nothing: one is under way, or this worker has come back and
  // knows none yet.
  const SlowSites* plan() const {
    return starts_.empty() || !awaited_.empty() ? nullptr : &starts_.back().slow;
  }
  // At the planner, while plan() is known: what it is to be from now on.
  void propose(SlowSites, Turn&);
  std::string waiting_for() const;  // "": nothing

  void on_start(Turn&) override;
  Status on_message(Rank from, const Message&, Turn&) override;
  void on_view(const View& before, Turn&) override;
  void state(Archive& ar) override {
    ar(round_, reported_, epoch_, plan_, slow_, workers_, starts_, awaited_, reports_, early_);
  }

 private:
  Status check(Rank from, const RoundReport&, const Turn&) const;
  Status check_starts(const RoundReport&, Round furthest, const Turn&) const;
  Status hear_next(Rank from, const RoundReport&, Turn&);
  void begin_next(Turn&);
  void begin_plan(SlowSites, Turn&);
  void report(Turn&);
  void take(Rank from, const RoundReport&, Turn&);
  void settle(Turn&);

  const Round apart_;
  Round round_ = 0;
  Round reported_ = 0;                          // in the newest view
  Epoch epoch_ = 0;                             // the newest view's
  std::uint32_t plan_ = 0;                      // the newest of that view
  SlowSites slow_;                              // what it says
  std::map<Epoch, std::vector<Rank>> workers_;  // of views in starts_, and of those after them
  std::vector<Start> starts_;                   // whole up to the view of the last
  std::set<Rank> awaited_;                      // who has not reported in the newest view and plan
  std::vector<RoundReport> reports_;            // in those, until all are in
  // Of the plan after it, by those who have heard all reports of this one. At most one each.
  std::map<Rank, RoundReport> early_;
};

}  // namespace longhaul::sync::shuffle
