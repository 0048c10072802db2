// What a Group does when its epoch changes.
#include <algorithm>

#include "longhaul/overlay/group.h"

namespace longhaul::overlay {

void Group::on_view(GroupTurn& turn) {
  if (common_.epoch_of(team_.workers) == team_.epoch)
    return;  // none of its members was lost or returned
  for (auto& [range, exchange] : exchanges_) exchange.forget_unfinished();
  forget_borrowed();
  form_team();
  std::erase_if(closed_by_, [&](Rank rank) { return !team_.index_of(rank); });
  reports_.clear();
  awaiting_reports_.clear();
  heard_.clear();
  reported_to_.clear();
  if (!team_.takes_part()) return;
  if (closed_) return;  // it answers members that have not closed it
  recover(turn);
}

void Group::recover(GroupTurn& turn) {
  for (const Rank to : team_.others()) {
    awaiting_reports_.insert(to);
    report(to, turn);
  }
  if (!frozen()) resolve(turn);
}

void Group::report(Rank to, GroupTurn& turn) {
  Report report{team_.epoch, number_, team_.name, {}};
  for (const auto& [range, exchange] : exchanges_)
    if (exchange.next() > 0 && !exchange.borrowed)
      report.standings.push_back({range, exchange.next()});
  reported_to_.insert(to);
  turn.own.send(to, report, {}, kControl);
}

// A node that began nothing before this epoch answers and waits for no report: no mean was formed
// without it. Nor does a node that has closed the group: it has had every mean.
Status Group::take(Rank from, const Report& report, GroupTurn& turn) {
  LH_TRY(check_members(from, report.members));
  if (report.epoch > team_.epoch) return malformed("report of an epoch to come");
  if (report.epoch < team_.epoch) {
    turn.late(0);
    return Ok{};
  }
  if (team_.epoch == 0 || !team_.takes_part() || !team_.index_of(from) || from == team_.self ||
      heard_.contains(from))
    return malformed("report that was not awaited");
  std::map<std::uint32_t, Round> rounds;
  for (const Report::Standing& standing : report.standings) {
    const Exchange* exchange = find(standing.range);
    const bool given = exchange && exchange->begun() && !exchange->held();
    const Round most = exchange ? exchange->next() + (given ? 1 : 0) : 0;
    if (standing.rounds > most && !(common_.newcomer() && (!exchange || exchange->borrowed)))
      return malformed("report of round " + std::to_string(standing.rounds) +
                       ", which lacks this node's part");
    if (!rounds.emplace(standing.range, standing.rounds).second)
      return malformed("report with a repetition");
  }
  heard_.insert(from);
  if (!reported_to_.contains(from)) this->report(from, turn);
  if (awaiting_reports_.erase(from) == 0) return Ok{};
  reports_[from] = std::move(rounds);
  if (!frozen()) resolve(turn);
  return Ok{};
}

// All survivors have reported: fetch the mean from one that has it, or repeat the round.
void Group::resolve(GroupTurn& turn) {
  if (common_.newcomer()) be_told();
  for (auto& [range, exchange] : exchanges_) {
    for (const auto& [rank, rounds] : reports_) {
      const auto had = rounds.find(range);
      if (exchange.fetching() || had == rounds.end() || had->second <= exchange.next()) continue;
      exchange.fetch_from(rank, turn);
    }
    if (exchange.begun() && !exchange.fetching()) exchange.contribute(turn);
  }
  reports_.clear();
}

Status Group::take(Rank from, const Fetch& fetch, GroupTurn& turn) {
  if (fetch.epoch < team_.epoch) {
    turn.late(fetch.vector.round);
    return Ok{};
  }
  Exchange* exchange = find(fetch.vector.range);
  if (fetch.epoch > team_.epoch || !team_.index_of(from) || !exchange ||
      !exchange->can_give(fetch.vector))
    return malformed("fetch of a mean that is not here");
  return exchange->repair(from, turn);
}

}  // namespace longhaul::overlay
