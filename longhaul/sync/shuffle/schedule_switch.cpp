#include "longhaul/sync/shuffle/schedule_switch.h"

#include <algorithm>

namespace longhaul::sync::shuffle {

void ScheduleSwitch::on_start(Turn& turn) {
  epoch_ = turn.view().epoch;
  workers_[epoch_] = live_with(Role::worker, turn.place(), turn.view());
  starts_ = {{epoch_, 0}};
}

std::pair<Epoch, const std::vector<Rank>&> ScheduleSwitch::workers_of(Round round) const {
  LH_CHECK(knows(round));
  // The newest view whose schedule has begun: a view may skip the one before.
  const auto start = std::find_if(starts_.rbegin(), starts_.rend(),
                                  [&](const Start& one) { return one.first <= round; });
  LH_CHECK(start != starts_.rend());
  return {start->epoch, workers_.at(start->epoch)};
}

// A worker that has not heard all reports of the view before may have ended the round that it
// reported there, and has begun none after it.
void ScheduleSwitch::on_view(const View&, Turn& turn) {
  reported_ = awaited_.empty() ? round_ : std::min(round_, reported_);
  epoch_ = turn.view().epoch;
  const std::vector<Rank> live = live_with(Role::worker, turn.place(), turn.view());
  workers_[epoch_] = live;
  awaited_ = {live.begin(), live.end()};
  awaited_.erase(turn.self());
  reports_.clear();
  for (const Rank to : awaited_)
    turn.send(to, RoundReport{epoch_, reported_, starts_}, {}, kControl);
  if (awaited_.empty()) settle();
}

Status ScheduleSwitch::check(Rank from, const RoundReport& report) const {
  if (!awaited_.contains(from)) return malformed("a report of a round that was not awaited");
  if (report.round > round_ + apart_)
    return malformed("a report of round " + std::to_string(report.round) + ", far ahead of " +
                     std::to_string(round_));
  if (report.starts.empty() || report.starts.front() != starts_.front())
    return malformed("a report that does not begin with all workers");
  for (std::size_t i = 1; i < report.starts.size(); ++i) {
    const Start& start = report.starts[i];
    if (start.epoch <= report.starts[i - 1].epoch || start.epoch >= epoch_ ||
        !workers_.contains(start.epoch) || start.first > round_ + apart_ + 1)
      return malformed("a report of views that cannot be");
  }
  return Ok{};
}

Status ScheduleSwitch::on_message(Rank from, const Message& message, Turn&) {
  return dispatch(Messages{}, message, [&](const RoundReport& report) -> Status {
    if (report.epoch < epoch_) return Ok{};  // a newer view has come meanwhile
    if (report.epoch > epoch_) return malformed("a report of a view to come");
    LH_TRY(check(from, report));
    awaited_.erase(from);
    reports_.push_back(report);
    if (awaited_.empty()) settle();
    return Ok{};
  });
}

// Whoever knows a view's start knows all before it, and those who know it say the same.
void ScheduleSwitch::settle() {
  Round latest = reported_;
  for (RoundReport& report : std::exchange(reports_, {})) {
    latest = std::max(latest, report.round);
    if (report.starts.back().epoch > starts_.back().epoch) starts_ = std::move(report.starts);
  }
  starts_.push_back({epoch_, latest + 1});
  std::erase_if(workers_, [&](const auto& one) {
    return std::none_of(starts_.begin(), starts_.end(),
                        [&](const Start& start) { return start.epoch == one.first; });
  });
}

std::string ScheduleSwitch::waiting_for() const {
  if (awaited_.empty()) return "";
  std::string text = "the rounds that ranks";
  for (const Rank rank : awaited_) text += " " + std::to_string(rank);
  return text + " are in";
}

}  // namespace longhaul::sync::shuffle
