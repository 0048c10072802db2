#pragma once
// ScheduleSwitch decides which view's workers form the groups of a round, with one result at all
// workers. Before the first loss these are all workers of the job.
//
// After a loss, survivors see the new view in different rounds. Each survivor reports its round to
// the other survivors, and begins no later round before it has their reports. Up to the latest
// reported round, the groups are unchanged, less the lost workers. From the next round on, the
// survivors form the groups. So no two workers form different groups in one round, and no worker
// waits for a group that another worker will not form.
//
// A worker knows a list of (view, first round of its schedule), complete up to some view. A report
// carries this list. If a further loss comes before all reports have arrived, survivors that know
// the view before report it. If none of them knows it, no survivor has used its schedule, and it is
// skipped. Reports are n (n - 1) small messages per view; workers compute in the meantime.
//
// A plan of the slow sites (site_rates.h) spreads in the same way, within a view. The planner
// reports it with its number, and every worker that receives the report reports, too. With all
// reports, the plan holds from the round after the latest reported one. A view keeps the plan of
// the view before. A plan that a loss interrupts is skipped.
//
// A returned worker knows no round: its reports are empty until it has all reports of one view. It
// takes part from the first round whose groups include it again.
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
    Epoch epoch = 0;            // view whose workers the schedule is of
    Round first = 0;            // first round of the schedule; the last is before the next start
    std::uint32_t workers = 0;  // number of workers
    std::uint32_t plan = 0;     // number of the plan in this view; 0: the plan of the view before
    SlowSites slow = {};        // slow sites by the plan that holds
    friend bool operator==(const Start&, const Start&) = default;
    LONGHAUL_FIELDS(epoch, (first, .max = 0x1p50), workers, plan, (slow, .max = kMostSlow))
  };
  struct RoundReport {
    LONGHAUL_MESSAGE(1, "round_report");
    Epoch epoch = 0;            // view that the sender has entered
    Round round = 0;            // latest round that the sender may have begun
    std::vector<Start> starts;  // ascending; empty: from a returned worker
    std::uint32_t plan = 0;     // plan of that view that the report answers or proposes; 0: none
    SlowSites slow = {};        // content of the plan
    LONGHAUL_FIELDS(epoch, (round, .max = 0x1p50), (starts, .max = 4096), plan,
                    (slow, .max = kMostSlow))
  };
  using Messages = MessageList<RoundReport>;

  // `apart`: maximum lead of a worker over another, in rounds.
  explicit ScheduleSwitch(Round apart) : apart_(apart) {}

  // Called when this worker is in the round, which follows the last one.
  void enter(Round round) { round_ = round; }
  // Returns true if the schedule of the round is known. False: reports are missing.
  bool knows(Round round) const { return awaited_.empty() || round <= reported_; }
  // Returns, at a returned worker, the first round that it takes part in; nullopt: not known yet.
  std::optional<Round> entry() const {
    return starts_.empty() || !awaited_.empty() ? std::nullopt : std::optional(round_);
  }
  // Returns the number of workers in the groups of a round, which may be before entry().
  std::uint32_t worker_count(Round round) const { return start_of(round).workers; }

  // Returns the view of a known round, and the view's workers, ascending.
  std::pair<Epoch, const std::vector<Rank>&> workers_of(Round round) const {
    LH_CHECK(knows(round));
    const Epoch epoch = start_of(round).epoch;
    return {epoch, workers_.at(epoch)};
  }

  // Returns the start that applies to a known round, that of the newest view whose schedule has
  // begun. A view may skip the one before.
  const Start& start_of(Round round) const {
    const auto start = std::find_if(starts_.rbegin(), starts_.rend(),
                                    [&](const Start& one) { return one.first <= round; });
    LH_CHECK(start != starts_.rend());
    return *start;
  }

  // Returns the newest plan; null if a plan is in progress, or if this worker has returned and
  // knows none yet.
  const SlowSites* plan() const {
    return starts_.empty() || !awaited_.empty() ? nullptr : &starts_.back().slow;
  }
  // Proposes a new plan. Can be called by the planner only, while plan() is not null.
  void propose(SlowSites slow, Turn& turn) {
    LH_CHECK(plan());
    begin_plan(std::move(slow), turn);
  }

  // Returns "" if no report is missing.
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
      if (report.epoch < epoch_) return Ok{};  // a newer view has begun meanwhile
      if (report.epoch > epoch_) return malformed("a report of a view to come");
      if (report.plan == plan_ + 1) return hear_next(from, report, turn);
      if (report.plan != plan_ || report.slow != slow_ || !awaited_.contains(from))
        return malformed("a report of a round that was not awaited");
      LH_TRY(check(from, report, turn));
      take(from, report, turn);
      return Ok{};
    });
  }

  // A worker without all reports of the view before may have ended the round that it reported
  // there. It has begun no later round.
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
  // Rounds kept after all workers have passed them. No schedule takes more rounds to make all
  // models equal.
  static constexpr Round kRemembered = 64;

  // Returns the version of a start or a report.
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

  // Accepts unknown views: views that this node has not seen or has forgotten. Their rounds are
  // behind this node, or it took no part in them.
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

  // Called when a report belongs to the plan after the current one. Its sender has all reports of
  // the current plan; this worker may not have them yet.
  Status hear_next(Rank from, const RoundReport& report, Turn& turn) {
    // A returned worker may not have received its view yet.
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

  // Forms the starts from all reports. A worker that knows the start of a view knows all earlier
  // starts that any worker may need, and all workers that know it agree. If no live worker knows a
  // start, none has a model.
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
  Round reported_ = 0;                          // round reported in the newest view
  Epoch epoch_ = 0;                             // epoch of the newest view
  std::uint32_t plan_ = 0;                      // newest plan of that view
  SlowSites slow_;                              // content of that plan
  std::map<Epoch, std::vector<Rank>> workers_;  // workers of the views in starts_ and of later ones
  std::vector<Start> starts_;                   // complete up to the view of the last
  std::set<Rank> awaited_;            // workers without a report in the newest view and plan
  std::vector<RoundReport> reports_;  // reports received there, until all have arrived
  // Reports for the next plan, at most one per worker, from workers that have all reports of this
  // one.
  std::map<Rank, RoundReport> early_;
};

}  // namespace longhaul::sync::shuffle
