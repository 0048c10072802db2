#include "longhaul/sync/shuffle/schedule_switch.h"

#include <algorithm>

namespace longhaul::sync::shuffle {
namespace {

// So many rounds are remembered that all have behind them: more than any schedule takes to make all
// models equal.
constexpr Round kRemembered = 64;

// Of a start or a report.
auto version(const auto& one) { return std::pair(one.epoch, one.plan); }

}  // namespace

void ScheduleSwitch::on_start(Turn& turn) {
  epoch_ = turn.view().epoch;
  if (turn.place().comes_back()) return;
  workers_[epoch_] = live_with(Role::worker, turn.place(), turn.view());
  starts_ = {{epoch_, 0, std::uint32_t(workers_[epoch_].size()), 0, {}}};
}

// The newest view whose schedule has begun: a view may skip the one before.
const ScheduleSwitch::Start& ScheduleSwitch::start_of(Round round) const {
  const auto start = std::find_if(starts_.rbegin(), starts_.rend(),
                                  [&](const Start& one) { return one.first <= round; });
  LH_CHECK(start != starts_.rend());
  return *start;
}

std::pair<Epoch, const std::vector<Rank>&> ScheduleSwitch::workers_of(Round round) const {
  LH_CHECK(knows(round));
  const Epoch epoch = start_of(round).epoch;
  return {epoch, workers_.at(epoch)};
}

std::uint32_t ScheduleSwitch::worker_count(Round round) const { return start_of(round).workers; }

// A worker that has not heard all reports of the view before may have ended the round that it
// reported there, and has begun none after it.
void ScheduleSwitch::on_view(const View&, Turn& turn) {
  reported_ = awaited_.empty() ? round_ : std::min(round_, reported_);
  epoch_ = turn.view().epoch;
  plan_ = 0;
  slow_.clear();
  early_.clear();
  workers_[epoch_] = live_with(Role::worker, turn.place(), turn.view());
  report(turn);
}

void ScheduleSwitch::propose(SlowSites slow, Turn& turn) {
  LH_CHECK(plan());
  begin_plan(std::move(slow), turn);
}

void ScheduleSwitch::report(Turn& turn) {
  const std::vector<Rank>& live = workers_.at(epoch_);
  awaited_ = {live.begin(), live.end()};
  awaited_.erase(turn.self());
  reports_.clear();
  for (const Rank to : awaited_)
    turn.send(to, RoundReport{epoch_, reported_, starts_, plan_, slow_}, {}, kControl);
  if (awaited_.empty()) settle(turn);
}

Status ScheduleSwitch::check(Rank from, const RoundReport& report, const Turn& turn) const {
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

// Of views that this node has not seen, or has forgotten, it knows nothing: they are of rounds that
// it has behind it, or in which it took no part.
Status ScheduleSwitch::check_starts(const RoundReport& report, Round furthest,
                                    const Turn& turn) const {
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

Status ScheduleSwitch::on_message(Rank from, const Message& message, Turn& turn) {
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
// Of the plan after the one that runs here: the sender has heard all reports of this one, and this
// worker may not have.
Status ScheduleSwitch::hear_next(Rank from, const RoundReport& report, Turn& turn) {
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

void ScheduleSwitch::begin_next(Turn& turn) {
  const std::map<Rank, RoundReport> heard = std::exchange(early_, {});
  begin_plan(heard.begin()->second.slow, turn);
  for (const auto& [from, report] : heard) take(from, report, turn);
}

void ScheduleSwitch::begin_plan(SlowSites slow, Turn& turn) {
  reported_ = round_;
  ++plan_;
  slow_ = std::move(slow);
  report(turn);
}

void ScheduleSwitch::take(Rank from, const RoundReport& report, Turn& turn) {
  awaited_.erase(from);
  reports_.push_back(report);
  if (awaited_.empty()) settle(turn);
}

// Whoever knows a view's start knows all before it that any may need, and those who know it say the
// same. With nobody left who knows any, nobody has a model either.
void ScheduleSwitch::settle(Turn& turn) {
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
    return std::none_of(starts_.begin(), starts_.end(),
                        [&](const Start& start) { return start.epoch == one.first; });
  });
  if (!early_.empty()) begin_next(turn);
}

std::string ScheduleSwitch::waiting_for() const {
  if (awaited_.empty()) return "";
  std::string text = "the rounds that ranks";
  for (const Rank rank : awaited_) text += " " + std::to_string(rank);
  return text + " are in";
}

}  // namespace longhaul::sync::shuffle
