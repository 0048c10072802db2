#pragma once
// ScheduleSwitch decides which workers form the groups of a round, with one result at all workers.
//
// After a loss or a return, workers enter the new view in different rounds (PeerStrategy). Up to
// the latest of these rounds the groups are unchanged, less the lost workers. From the next round
// on, the workers of the view form the groups. So no two workers form different groups in one
// round, and no worker waits for a group that another worker will not form. A returned worker is in
// groups from the round on in which it enters.
//
// A worker knows a list of starts (view, workers, first round) and sends it to the others when it
// enters a view. The newest list counts, with the returned workers of all lists. If a further loss
// comes before all have entered a view, some may know its start. If none of them does, none has
// used its groups, and it is skipped. A returned worker gets the list from the others.
//
// A plan of the slow sites (site_rates.h) begins within a view. The planner, the senior worker,
// asks all workers for their rounds, and then sends them the plan, which holds from the round after
// the latest one on. Until the plan arrives, a worker begins no later round than the one it has
// sent. A view keeps the plan of the view before. A plan that a loss interrupts is skipped, unless
// a worker that has it is left.
#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "longhaul/sync/flat.h"
#include "longhaul/sync/shuffle/site_rates.h"

namespace longhaul::sync::shuffle {

class ScheduleSwitch final : public Machine {
  static constexpr double kMostSlow = 4096, kMostWorkers = 1 << 20;

 public:
  struct Worker {
    Rank rank = 0;
    Round from = 0;  // the first round in which it takes part
    friend bool operator==(const Worker&, const Worker&) = default;
    LONGHAUL_FIELDS(rank, (from, .max = 0x1p50))
  };
  struct Start {
    Epoch epoch = 0;         // view
    std::uint32_t plan = 0;  // number of the plan in this view; 0: that of the view before
    Round first = 0;         // the last round is the one before the next start
    std::vector<Worker> workers = {};  // ascending
    SlowSites slow = {};               // slow sites by the plan that holds
    friend bool operator==(const Start&, const Start&) = default;

    std::vector<Rank> workers_in(Round round) const {
      std::vector<Rank> ranks;
      for (const Worker& worker : workers)
        if (worker.from <= round) ranks.push_back(worker.rank);
      return ranks;
    }
    void add(const Worker& worker) {
      const auto at = std::ranges::lower_bound(workers, worker.rank, {}, &Worker::rank);
      if (at == workers.end() || at->rank != worker.rank) workers.insert(at, worker);
    }
    LONGHAUL_FIELDS(epoch, plan, (first, .max = 0x1p50), (workers, .max = kMostWorkers),
                    (slow, .max = kMostSlow))
  };
  struct Starts {  // to all workers of a new view
    LONGHAUL_MESSAGE(1, "starts");
    Epoch epoch = 0;
    std::vector<Start> starts = {};  // ascending; empty: the sender knows none
    LONGHAUL_FIELDS(epoch, (starts, .max = 4096))
  };
  struct RoundAsked {  // from the planner to all workers
    LONGHAUL_MESSAGE(2, "round_asked");
    Epoch epoch = 0;
    LONGHAUL_FIELDS(epoch)
  };
  struct RoundTold {  // to the planner
    LONGHAUL_MESSAGE(3, "round_told");
    Epoch epoch = 0;
    Round round = 0;  // the sender begins no later one before it has the plan
    LONGHAUL_FIELDS(epoch, (round, .max = 0x1p50))
  };
  struct Plan {  // from the planner to all workers
    LONGHAUL_MESSAGE(4, "plan");
    Epoch epoch = 0;
    Round first = 0;
    SlowSites slow = {};
    LONGHAUL_FIELDS(epoch, (first, .max = 0x1p50), (slow, .max = kMostSlow))
  };
  using Messages = MessageList<Starts, RoundAsked, RoundTold, Plan>;

  // `apart`: maximum lead of a worker over another, in rounds.
  explicit ScheduleSwitch(Round apart) : apart_(apart) {}

  // Called when this worker is in the round, which follows the last one.
  void enter(Round round) { round_ = round; }
  // Called before this worker enters the view, in the round.
  void send_starts(const std::vector<Rank>& to, Round round, Turn& turn) {
    round_ = round;
    for (const Rank rank : to) turn.send(rank, Starts{turn.view().epoch, starts_}, {}, kControl);
  }
  // Called when all workers have entered the view, in these rounds. `back`: returned workers, which
  // may enter later, with add(). At a returned worker itself, the others may have begun the view.
  void begin_view(const std::map<Rank, Round>& rounds, const std::map<Rank, Round>& back,
                  Turn& turn) {
    Start start{.epoch = turn.view().epoch};
    Round earliest = round_, latest = 0;
    for (const auto& [rank, round] : rounds) {
      start.add({rank, 0});
      earliest = std::min(earliest, round);
      latest = std::max(latest, round);
    }
    if (starts_.empty() || starts_.back().epoch < start.epoch) {
      if (!starts_.empty()) start.first = latest + 1, start.slow = starts_.back().slow;
      starts_.push_back(std::move(start));
    }
    for (const auto& [rank, round] : back) add(rank, round);
    const auto holds = std::ranges::find_if(
        starts_.rbegin(), starts_.rend(), [&](const Start& one) { return one.first <= earliest; });
    if (holds != starts_.rend()) starts_.erase(starts_.begin(), holds.base() - 1);
    has_begun_ = true;
    if (std::exchange(is_asked_, false)) tell_round(turn);
  }

  // Adds a returned worker, which takes part from this round on.
  void add(Rank rank, Round from) { starts_.back().add({rank, from}); }

  // Returns true if the schedule of the round is known, in a view that has begun. False: the plan
  // is missing.
  bool knows(Round round) const { return !told_ || round <= *told_; }
  // Returns the start that applies to a known round: that of the newest view or plan that has begun
  // by then. Null, at a returned worker: it is in no group.
  const Start* start_of(Round round) const {
    const auto start = std::ranges::find_if(starts_.rbegin(), starts_.rend(),
                                            [&](const Start& one) { return one.first <= round; });
    return start == starts_.rend() ? nullptr : &*start;
  }

  // Returns the newest plan; null if the view has not begun, or if a plan is in progress.
  const SlowSites* plan() const { return has_begun_ && !told_ ? &starts_.back().slow : nullptr; }
  // Proposes a new plan. Can be called by the planner only, while plan() is not null.
  void propose(SlowSites slow, Turn& turn) {
    LH_CHECK(plan());
    proposed_ = std::move(slow);
    told_ = latest_ = round_;
    for (const auto& [rank, from] : starts_.back().workers) {
      if (rank == turn.self()) continue;
      awaited_.insert(rank);
      turn.send(rank, RoundAsked{turn.view().epoch}, {}, kControl);
    }
    if (awaited_.empty()) settle(turn);
  }

  // Returns "" if no plan is in progress.
  std::string waiting_for() const {
    if (!told_) return "";
    return awaited_.empty() ? "the plan of the slow sites, of the senior worker"
                            : "the rounds that ranks" + listed(awaited_) + " are in";
  }

  Status on_message(Rank from, const Message& message, Turn& turn) override {
    return dispatch(Messages{}, message, [&](const auto& m) -> Status {
      if (m.epoch != turn.view().epoch) return Ok{};
      if (!turn.place().member(from).is(Role::worker)) return malformed("a schedule of no worker");
      return take(from, m, turn);
    });
  }

  void on_view(const View&, Turn&) override {
    has_begun_ = is_asked_ = false;
    told_.reset();
    awaited_.clear();
  }

  void state(Archive& ar) override {
    ar(round_, starts_, has_begun_, is_asked_, told_, awaited_, latest_, proposed_);
    if (has_begun_ && starts_.empty()) ar.fail("holds a view without a schedule");
  }

 private:
  // Returns the version of a start.
  static auto version(const Start& one) { return std::pair(one.epoch, one.plan); }

  static Status check_slow(const SlowSites& slow, const Turn& turn) {
    for (const SlowSite& one : slow)
      if (one.site >= turn.place().size()) return malformed("a plan of a site that is not there");
    return Ok{};
  }

  // A worker that knows the start of a view knows all earlier starts that any worker may need, and
  // all workers that know it agree.
  Status take(Rank, const Starts& list, Turn& turn) {
    if (has_begun_) return Ok{};  // from a returned worker, which enters late
    const RankList& all = turn.place().members.with(Role::worker);
    for (std::size_t i = 0; i < list.starts.size(); ++i) {
      const Start& start = list.starts[i];
      if (start.epoch > turn.view().epoch ||
          (i > 0 && version(start) <= version(list.starts[i - 1])))
        return malformed("schedules of views that cannot be");
      if (std::ranges::adjacent_find(start.workers, std::ranges::greater_equal{}, &Worker::rank) !=
              start.workers.end() ||
          !std::ranges::all_of(start.workers, [&](const Worker& one) { return all.has(one.rank); }))
        return malformed("a schedule of workers that are not there");
      LH_TRY(check_slow(start.slow, turn));
    }
    if (list.starts.empty()) return Ok{};
    const Start& newest = list.starts.back();
    if (starts_.empty() || version(newest) > version(starts_.back()))
      starts_ = list.starts;
    else if (version(newest) == version(starts_.back()))
      for (const Worker& worker : newest.workers) starts_.back().add(worker);
    return Ok{};
  }

  Status take(Rank from, const RoundAsked&, Turn& turn) {
    if (from != senior_worker(turn.place(), turn.view()) || told_ || is_asked_)
      return malformed("a plan that cannot be yet");
    is_asked_ = !has_begun_;
    if (has_begun_) tell_round(turn);
    return Ok{};
  }

  Status take(Rank from, const RoundTold& told, Turn& turn) {
    if (!awaited_.contains(from)) return malformed("a round that was not asked for");
    awaited_.erase(from);
    latest_ = std::max(latest_, std::min(told.round, round_ + apart_));  // no more is possible
    if (awaited_.empty()) settle(turn);
    return Ok{};
  }

  Status take(Rank from, const Plan& plan, Turn& turn) {
    if (from != senior_worker(turn.place(), turn.view()) || !told_ || plan.first <= *told_)
      return malformed("a plan that was not announced, or that begins too early");
    LH_TRY(check_slow(plan.slow, turn));
    begin_plan(plan.first, plan.slow);
    return Ok{};
  }

  void tell_round(Turn& turn) {
    told_ = round_;
    turn.send(senior_worker(turn.place(), turn.view()), RoundTold{turn.view().epoch, round_}, {},
              kControl);
  }

  void settle(Turn& turn) {
    begin_plan(latest_ + 1, std::move(proposed_));
    const Start& start = starts_.back();
    for (const auto& [rank, from] : start.workers)
      if (rank != turn.self())
        turn.send(rank, Plan{start.epoch, start.first, start.slow}, {}, kControl);
  }

  void begin_plan(Round first, SlowSites slow) {
    Start start = starts_.back();
    ++start.plan;
    start.first = first;
    start.slow = std::move(slow);
    starts_.push_back(std::move(start));
    told_.reset();
  }

  const Round apart_;
  Round round_ = 0;
  std::vector<Start> starts_;  // up to the newest one that this worker knows
  bool has_begun_ = false;     // the view: all have entered it
  bool is_asked_ = false;      // for its round, when the view has begun
  std::optional<Round> told_;  // the round that it has sent, while it waits for the plan
  // At the planner.
  std::set<Rank> awaited_;  // workers whose round is asked for
  Round latest_ = 0;        // latest round that has arrived
  SlowSites proposed_;
};

}  // namespace longhaul::sync::shuffle
