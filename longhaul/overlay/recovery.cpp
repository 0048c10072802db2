// What AgreedMean does when the view changes.
#include "longhaul/overlay/scene.h"

namespace longhaul::overlay {

void AgreedMean::form_team(const View& view) {
  team_.epoch = view.epoch;
  team_.members = live_with(Role::worker, place_, view);
  team_.server = team_.members.empty() ? std::nullopt : topology_->server(team_.members, view);
  topology_->new_team(team_);
  for (auto& [id, sequence] : sequences_) sequence.plans.clear();
}

// Nothing if no worker is left.
std::unique_ptr<Plan> AgreedMean::make_plan(const Grid& grid, Round since) const {
  if (team_.members.empty()) return nullptr;
  if (since > 0) return std::make_unique<Plan>(grid, team_, topology_->forest_since(since, grid));
  if (const auto forest = topology_->forest(grid, team_))
    return std::make_unique<Plan>(grid, team_, *forest);
  return std::make_unique<Plan>(grid, team_);
}

TransferKey AgreedMean::repair_key(const Sequence& sequence) const {
  return {team_.epoch, sequence.vector(sequence.mean.round, team_.self),
          std::uint8_t(Phase::repair), Coding::exact};
}

void AgreedMean::on_view(const View&, Turn& turn) {
  for (auto& [id, sequence] : sequences_) {
    while (!sequence.attempts.empty()) drop(sequence, sequence.attempts.begin()->first);
    if (!sequence.mean.whole()) sequence.mean = {};
    if (!served_.empty()) transfer_->cancel(repair_key(sequence), std::nullopt);
    sequence.source.reset();
    // Members may repeat a round that a server had reduced.
    if (!team_.takes_part() && sequence.next > 0) sequence.lowest = sequence.next - 1;
  }
  forget_borrowed();
  form_team(turn.view());
  wind(turn);
  reports_.clear();
  served_.clear();
  unheard_.clear();
  if (!team_.takes_part()) return;
  Report report{team_.epoch, {}};
  for (const auto& [id, sequence] : sequences_)
    if (sequence.next > 0) report.standings.push_back({id.first, id.second, sequence.next});
  for (const Rank to : team_.others()) {
    unheard_.insert(to);
    turn.send(to, report, {}, kControl);
  }
  if (unheard_.empty()) resolve(turn);
}

Status AgreedMean::take(Rank from, const Report& report, Turn& turn) {
  if (report.epoch > team_.epoch) return malformed("report of an epoch to come");
  if (report.epoch < team_.epoch) {
    turn.record("late", 0, 1);
    return Ok{};
  }
  if (!unheard_.contains(from)) return malformed("report that was not awaited");
  std::map<Id, Round> rounds;
  for (const Report::Standing& standing : report.standings) {
    const Id id{standing.group, standing.range};
    const Sequence* sequence = find(id);
    const bool given = sequence && sequence->begun && !sequence->held;
    const Round most = sequence ? sequence->next + (given ? 1 : 0) : 0;
    if (standing.rounds > most && !(newcomer() && (!sequence || sequence->borrowed)))
      return malformed("report of round " + std::to_string(standing.rounds) +
                       ", which lacks this node's part");
    if (!rounds.emplace(id, standing.rounds).second) return malformed("report with a repetition");
  }
  reports_[from] = std::move(rounds);
  unheard_.erase(from);
  if (unheard_.empty()) resolve(turn);
  return Ok{};
}

// All survivors have told what they have: fetch it, or try again.
void AgreedMean::resolve(Turn& turn) {
  if (newcomer()) be_told();
  for (auto& [id, sequence] : sequences_) {
    for (const auto& [rank, rounds] : reports_) {
      const auto had = rounds.find(id);
      if (sequence.source || had == rounds.end() || had->second <= sequence.next) continue;
      sequence.source = rank;
      turn.send(rank, Fetch{team_.epoch, id.first, id.second, sequence.next}, {}, kControl);
    }
    if (sequence.begun && !sequence.source) give(sequence, turn);
  }
  reports_.clear();
}

Status AgreedMean::take(Rank from, const Fetch& fetch, Turn& turn) {
  const CodecKey vector{{fetch.round, fetch.group, fetch.range}, team_.self};
  if (fetch.epoch < team_.epoch) {
    late(vector, turn);
    return Ok{};
  }
  const Id id{fetch.group, fetch.range};
  Sequence* sequence = find(id);
  if (fetch.epoch > team_.epoch || !team_.index_of(from) || !sequence || !sequence->mean.whole() ||
      sequence->mean.round != fetch.round)
    return malformed("fetch of a mean that is not here");
  if (!served_.emplace(from, id).second) return malformed("fetch for the second time");
  const Mean& mean = sequence->mean;
  Roster roster = roster_of(team_, vector, mean.counted, mean.weight);
  roster.formed = mean.epoch;
  turn.send(from, roster, {}, kControl);
  if (mean.counted.empty()) return Ok{};
  Outgoing repair{repair_key(*sequence), from, {}, mean.weight, kBulk};
  for (std::size_t piece = 0; piece < sequence->grid.pieces(); ++piece)
    repair.ranges.push_back(sequence->grid.range(piece));
  Turn below = within(*transfer_, turn);
  transfer_->begin(std::move(repair), below);
  return Ok{};
}

}  // namespace longhaul::overlay
