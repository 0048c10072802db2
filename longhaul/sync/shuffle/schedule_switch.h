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
#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "longhaul/sync/flat.h"
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
    LONGHAUL_FIELDS(epoch, (first, .max = 0x1p50), workers, plan, (slow, .max = kMostSlow))
  };
  struct RoundReport {
    LONGHAUL_MESSAGE(1, "round_report");
    Epoch epoch = 0;            // of the view that it answers
    Round round = 0;            // the latest that the sender may have begun
    std::vector<Start> starts;  // ascending; empty: of one that has come back
    std::uint32_t plan = 0;     // of that view, that it answers or proposes; 0: the view alone
    SlowSites slow = {};        // what the plan says
    LONGHAUL_FIELDS(epoch, (round, .max = 0x1p50), (starts, .max = 4096), plan,
                    (slow, .max = kMostSlow))
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
  std::uint32_t worker_count(Round round) const { return start_of(round).workers; }

  // Those of a round that is known: the view, and its workers, ascending.
  std::pair<Epoch, const std::vector<Rank>&> workers_of(Round round) const {
    LH_CHECK(knows(round));
    const Epoch epoch = start_of(round).epoch;
    return {epoch, workers_.at(epoch)};
  }

  // of a round that is known
  // The newest view whose schedule has begun: a view may skip the one before.
  const Start& start_of(Round round) const {
    const auto start = std::find_if(starts_.rbegin(), starts_.rend(),
                                    [&](const Start& one) { return one.first <= round; });
    LH_CHECK(start != starts_.rend());
    return *start;
  }

  // The newest plan that is known here; nothing: one is under way, or this worker has come back and
  // knows none yet.
  const SlowSites* plan() const {
    return starts_.empty() || !awaited_.empty() ? nullptr : &starts_.back().slow;
  }
  // At the planner, while plan() is known: what it is to be from now on.
  void propose(SlowSites slow, Turn& turn) {
    LH_CHECK(plan());
    begin_plan(std::move(slow), turn);
  }

  // "": nothing
  std::string waiting_for() const {
    if (awaited_.empty()) return "";
    return "the rounds that ranks" + listed(awaited_) + " are in";
  }

  void on_start(Turn& turn) override {
    epoch_ = turn.view().epoch;
    if (turn.place().comes_back()) return;
    workers_[epoch_] = live_workers(turn);
    starts_ = {{epoch_, 0, std::uint32_t(workers_[epoch_].size()), 0, {}}};
  }

  Status on_message(Rank from, const Message& message, Turn& turn) override {
    return dispatch(Messages{}, message, [&](const RoundReport& report) -> Status {
      if (report.epoch < epoch_) return Ok{};  // a newer view has come meanwhile
      if (report.epoch > epoch_) return malformed("a report of a view to come");
      if (report.plan == plan_ + 1) return hear_next(from, report, turn);
      if (report.plan != plan_ || report.slow != slow_ || !awaited_.contains(from))
        return malformed("a report of a round that was not awaited");
      LH_TRY(check(from, report, turn));
      take(from, report, turn);
      return Ok{};
    });
  }

  // A worker that has not heard all reports of the view before may have ended the round that it
  // reported there, and has begun none after it.
  void on_view(const View&, Turn& turn) override {
    reported_ = awaited_.empty() ? round_ : std::min(round_, reported_);
    epoch_ = turn.view().epoch;
    plan_ = 0;
    slow_.clear();
    early_.clear();
    workers_[epoch_] = live_workers(turn);
    report(turn);
  }

  void state(Archive& ar) override {
    ar(round_, reported_, epoch_, plan_, slow_, workers_, starts_, awaited_, reports_, early_);
  }

 private:
  // So many rounds are remembered that all have behind them: more than any schedule takes to make
  // all models equal.
  static constexpr Round kRemembered = 64;

  // Of a start or a report.
  static auto version(const auto& one) { return std::pair(one.epoch, one.plan); }

  Status check(Rank from, const RoundReport& report, const Turn& turn) const {
    if (report.starts.empty())
      return report.plan == 0 && turn.view().since(from) > 0
                 ? Status(Ok{})
                 : malformed("a report that begins with no view");
    const Round furthest = starts_.empty() ? ~Round(0) : round_ + apart_;
    if (report.round > furthest)
      return malformed("a report of round " + std::to_string(report.round) + ", far ahead of " +
                       std::to_string(round_));
    if (!starts_.empty() && report.starts.front().first > round_)
      return malformed("a report that begins after this node's round");
    for (const SlowSite& one : report.slow)
      if (one.site >= turn.place().size()) return malformed("a plan of a site that is not there");
    return check_starts(report, furthest, turn);
  }

  // Of views that this node has not seen, or has forgotten, it knows nothing: they are of rounds
  // that
  // it has behind it, or in which it took no part.
  Status check_starts(const RoundReport& report, Round furthest, const Turn& turn) const {
    for (std::size_t i = 0; i < report.starts.size(); ++i) {
      const Start& start = report.starts[i];
      const auto known = workers_.find(start.epoch);
      const bool may_be_unknown = starts_.empty() || start.epoch < starts_.front().epoch ||
                                  start.epoch < turn.view().since(turn.self());
      if ((i > 0 && version(start) <= version(report.starts[i - 1])) ||
          version(start) >= version(report) ||
          (i > 0 && start.first > furthest && start.first - 1 > furthest) ||
          (known == workers_.end() ? !may_be_unknown : known->second.size() != start.workers))
        return malformed("a report of views that cannot be");
    }
    return Ok{};
  }

  // Of the plan after the one that runs here: the sender has heard all reports of this one, and
  // this
  // worker may not have.
  Status hear_next(Rank from, const RoundReport& report, Turn& turn) {
    // One that has come back may not have been told of its view yet.
    const auto workers = workers_.find(epoch_);
    const bool is_worker =
        workers != workers_.end() && std::ranges::binary_search(workers->second, from);
    if (!is_worker || awaited_.contains(from) || early_.contains(from) ||
        (!early_.empty() && early_.begin()->second.slow != report.slow))
      return malformed("a plan that cannot be yet");
    LH_TRY(check(from, report, turn));
    early_[from] = report;
    if (awaited_.empty()) begin_next(turn);
    return Ok{};
  }

  void begin_next(Turn& turn) {
    const std::map<Rank, RoundReport> heard = std::exchange(early_, {});
    begin_plan(heard.begin()->second.slow, turn);
    for (const auto& [from, report] : heard) take(from, report, turn);
  }

  void begin_plan(SlowSites slow, Turn& turn) {
    reported_ = round_;
    ++plan_;
    slow_ = std::move(slow);
    report(turn);
  }

  void report(Turn& turn) {
    const std::vector<Rank>& live = workers_.at(epoch_);
    awaited_ = {live.begin(), live.end()};
    awaited_.erase(turn.self());
    reports_.clear();
    for (const Rank to : awaited_)
      turn.send(to, RoundReport{epoch_, reported_, starts_, plan_, slow_}, {}, kControl);
    if (awaited_.empty()) settle(turn);
  }

  void take(Rank from, const RoundReport& report, Turn& turn) {
    awaited_.erase(from);
    reports_.push_back(report);
    if (awaited_.empty()) settle(turn);
  }

  // Whoever knows a view's start knows all before it that any may need, and those who know it say
  // the
  // same. With nobody left who knows any, nobody has a model either.
  void settle(Turn& turn) {
    const bool knew = !starts_.empty();
    Round latest = knew ? reported_ : 0, earliest = knew ? reported_ : ~Round(0);
    for (RoundReport& report : std::exchange(reports_, {})) {
      if (report.starts.empty()) continue;
      latest = std::max(latest, report.round);
      earliest = std::min(earliest, report.round);
      if (starts_.empty() || version(report.starts.back()) > version(starts_.back()))
        starts_ = std::move(report.starts);
    }
    if (starts_.empty()) return;
    starts_.push_back({epoch_, latest + 1, std::uint32_t(workers_.at(epoch_).size()), plan_,
                       plan_ > 0 ? slow_ : starts_.back().slow});
    if (!knew) {
      round_ = latest + 1;
      for (const Start& start : starts_)
        if (start.epoch >= turn.view().since(turn.self())) round_ = std::min(round_, start.first);
    }
    const auto is_needed = [&](const Start& start) { return start.first + kRemembered > earliest; };
    const auto next = std::find_if(starts_.begin() + 1, starts_.end(), is_needed);
    starts_.erase(starts_.begin(), next - 1);
    std::erase_if(workers_, [&](const auto& one) {
      return std::ranges::none_of(starts_,
                                  [&](const Start& start) { return start.epoch == one.first; });
    });
    if (!early_.empty()) begin_next(turn);
  }

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
