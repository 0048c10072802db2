#include "longhaul/sync/fedgsync_server.h"

#include <algorithm>

#include "longhaul/sync/grouping/groups.h"

namespace longhaul::sync {

Status FedGSyncServer::check_extension(Rank from, const server::ServerHeader& header) const {
  if (header.kind == server::ServerHeader::Kind::start)
    return ParameterServer::check_extension(from, header);
  const std::size_t size = setup().place.phantom ? 0 : config_.sketch;
  const auto update = server::from_extension<FedGSyncUpdate>(header.extension);
  if (!update) return update.error();
  if (update->sketch.size() != size || !all_finite(update->sketch))
    return malformed("a sketch that is not of " + std::to_string(size) + " finite numbers");
  return Ok{};
}

void FedGSyncServer::on_pull(Rank rank, const server::ServerHeader& header) {
  const auto update = server::from_extension<FedGSyncUpdate>(header.extension);
  sketches_[rank] = update->sketch;
  samples_[rank] = update->shard;
}

// The first model is given when all have asked for it, and so have sent a sketch.
void FedGSyncServer::on_model_sent(Rank rank, Turn& turn) {
  if (groups_.empty()) {
    group(turn);
    began_ = turn.now();
  }
  urgencies_.given(rank, turn.now());
}

server::Extension FedGSyncServer::model_extension(Rank rank) {
  const auto found = classes_.find(rank);
  told_[rank] = found == classes_.end() ? 0 : found->second;
  return server::to_extension(FedGSyncModel{told_[rank], refused_.erase(rank) > 0});
}

void FedGSyncServer::group(Turn& turn) {
  groups_.clear();
  for (auto& members :
       grouping::group_by_sketch(sketches_, config_.groups, turn.place().seed, rounds()))
    groups_.push_back({.members = std::move(members)});
  grouping::set_shares(groups_, samples_, config_.share == "data");
  lost_ = 0;
  turn.record("groups", rounds(), double(groups_.size()));
}

// on UPDATE(i, r')
FedGSyncServer::Taken FedGSyncServer::commit(Rank from, const server::ServerHeader& header,
                                             std::span<const float> values, Turn& turn) {
  on_pull(from, header);
  if (header.version < next_[from]) return Taken::discarded;  // a second copy
  next_[from] = header.version + 1;
  urgencies_.came(from, turn.now());
  const std::uint64_t tau = store().version() - header.version;
  if (tau > config_.max_staleness) {
    refused_.insert(from);
    return Taken::discarded;
  }
  const auto n_i = double(std::max<std::uint64_t>(samples_[from], 1));
  pending_[{from, header.version}] = {n_i * grouping::lateness_weight(tau),
                                      {values.begin(), values.end()}};
  advance(turn);
  return Taken::kept;
}

// The quota counts live members, and fresh updates of any member meet it.
std::vector<grouping::Need> FedGSyncServer::needs(const Turn& turn) const {
  std::vector<grouping::Need> needs;
  for (const grouping::Group& group : groups_) {
    grouping::Need need;
    std::uint64_t fresh = 0;
    for (Rank rank : group.members) {
      fresh += pending_.contains({rank, store().version()}) ? 1 : 0;
      if (turn.view().has(rank)) need.members.push_back(rank);
    }
    if (!group.one_is_enough) need.quota = grouping::quota_of(config_.rho, need.members.size());
    need.met = need.members.empty() || fresh >= need.quota;
    needs.push_back(std::move(need));
  }
  return needs;
}

bool FedGSyncServer::are_quotas_met(const Turn& turn) const {
  return std::ranges::all_of(needs(turn), &grouping::Need::met);
}

void FedGSyncServer::advance(Turn& turn) {
  if (groups_.empty() || over()) return;
  if (are_quotas_met(turn)) end_round(turn);
  classify(turn);
}

// W_{r+1} = W_r + eta_g sum_g pi_g D_g; running statistics are the same mean of theirs. Without any
// update there is nothing to commit: the round goes on.
void FedGSyncServer::end_round(Turn& turn) {
  std::vector<double> sum(store().values().size());
  const std::set<std::size_t> without = grouping::weigh(groups_, pending_, sum);
  if (without.size() == groups_.size()) return set_deadline(turn.now(), turn);
  const auto w = store().change();
  const std::uint64_t length = parameters().length;
  for (std::size_t k = 0; k < w.size(); ++k)
    w[k] = float(k < length ? double(w[k]) + config_.global_rate * sum[k] : sum[k]);
  for (std::size_t g : without) turn.record("missing_group", rounds(), double(g));
  record_used(turn);
  judge(turn);
  turn.record("round_s", rounds(), seconds(turn.now() - began_));
  // A round that the deadline has ended is none to set deadlines by: each would be longer.
  if (are_quotas_met(turn)) times_.add(turn.now() - began_);
  pending_.clear();
  committed(turn);
  if (over()) return;
  std::size_t grouped = 0;
  for (const grouping::Group& one : groups_) grouped += one.members.size();
  if (store().version() % config_.regroup == 0 || 5 * lost_ >= grouped || leaves_one_out())
    group(turn);
  began_ = turn.now();
  set_deadline(began_, turn);
}

bool FedGSyncServer::is_in_a_group(Rank rank) const {
  return std::ranges::any_of(groups_, [rank](const grouping::Group& group) {
    return std::ranges::binary_search(group.members, rank);
  });
}

// One has returned, after groups had been made without it.
bool FedGSyncServer::leaves_one_out() const {
  return std::ranges::any_of(sketches_, [&](const auto& of) { return !is_in_a_group(of.first); });
}

// Updates of workers that are in no group are in no mean.
void FedGSyncServer::record_used(Turn& turn) {
  for (const auto& [key, update] : pending_) {
    const Rank rank = key.first;
    if (is_in_a_group(rank))
      used_samples(rank, turn);
    else
      turn.record("push_discarded", rounds(), double(rank));
  }
}

// Groups that have missed the quota of this round, and of the one before, wait for one from now on.
void FedGSyncServer::judge(Turn& turn) {
  const auto all = needs(turn);
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    groups_[g].missed = all[g].met ? 0 : groups_[g].missed + 1;
    if (groups_[g].missed < 2) continue;
    groups_[g].one_is_enough = true;
    turn.record("suspected_group", rounds(), double(g));
  }
}

void FedGSyncServer::set_deadline(Time since, Turn& turn) {
  const auto allowed = times_.medians(config_.round_deadline);
  if (!allowed) return;
  deadline_ = since + *allowed;
  turn.set_timer(*this, kDeadline, deadline_);
}

void FedGSyncServer::on_timer(TimerId id, Turn& turn) {
  if (groups_.empty() || over()) return;
  if (id == kDeadline && turn.now() >= deadline_) end_round(turn);
  classify(turn);
  settle(turn);
}

// Workers at an update hear its class when it has changed.
void FedGSyncServer::classify(Turn& turn) {
  if (!config_.differential || over()) return;
  const auto all = needs(turn);
  classes_ = urgencies_.classes(all, turn.now());
  for (const auto& [rank, of] : classes_)
    if (told_[rank] != of && notify(rank, server::to_extension(FedGSyncModel{of})))
      told_[rank] = of;
  if (const auto late = urgencies_.next_late(all, turn.now())) turn.set_timer(*this, kLate, *late);
}

// Its update of this round stays; it has no sketch in the next grouping.
void FedGSyncServer::drop(Rank rank) {
  urgencies_.lose(rank);
  sketches_.erase(rank);
  refused_.erase(rank);
  told_.erase(rank);
  ++lost_;
}

void FedGSyncServer::state(Archive& ar) {
  ParameterServer::state(ar);
  ar(groups_, pending_, sketches_, samples_, next_, refused_, lost_, began_, deadline_, times_);
  ar(urgencies_, classes_, told_);
  if (!ar.loading()) return;
  const std::size_t size = setup().place.phantom ? 0 : setup().place.layout->size();
  for (const auto& [key, update] : pending_)
    if (update.values.size() != size) ar.fail("holds an update of another size");
}

}  // namespace longhaul::sync
