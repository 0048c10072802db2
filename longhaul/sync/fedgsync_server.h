#pragma once
// The server of FedGSync: groups, quotas, commits, and which updates are urgent.
#include <algorithm>

#include "longhaul/sync/fedgsync_config.h"
#include "longhaul/sync/grouping/commit.h"
#include "longhaul/sync/grouping/groups.h"
#include "longhaul/sync/grouping/urgency.h"
#include "longhaul/sync/round_times.h"
#include "longhaul/sync/server/parameter_server.h"

namespace longhaul::sync {

class FedGSyncServer final : public server::ParameterServer {
 public:
  FedGSyncServer(const FedGSyncConfig& config, const server::Setup& setup)
      : ParameterServer(setup), config_(config) {}
  void on_timer(TimerId id, Turn& turn) override {
    if (groups_.empty() || over()) return;
    if (id == kDeadline && turn.now() >= deadline_) end_round(turn);
    classify(turn);
    settle(turn);
  }

  void state(Archive& ar) override {
    ParameterServer::state(ar);
    ar(groups_, pending_, sketches_, samples_, next_, refused_, lost_, began_, deadline_, times_);
    ar(urgencies_, classes_, told_);
    if (!ar.loading()) return;
    const std::size_t size = setup().place.phantom ? 0 : setup().place.layout->size();
    for (const auto& [key, update] : pending_)
      if (update.values.size() != size) ar.fail("holds an update of another size");
  }

  const std::vector<grouping::Group>& groups() const { return groups_; }

 private:
  static constexpr TimerId kDeadline{1}, kLate{2};

  Status check_extension(Rank from, const server::ServerHeader& header) const override {
    if (header.kind == server::ServerHeader::Kind::start)
      return ParameterServer::check_extension(from, header);
    const std::size_t size = setup().place.phantom ? 0 : config_.sketch;
    LH_LET(update, server::from_extension<FedGSyncUpdate>(header.extension));
    if (update.sketch.size() != size || !all_finite(update.sketch))
      return malformed("a sketch that is not of " + std::to_string(size) + " finite numbers");
    return Ok{};
  }

  void on_pull(Rank rank, const server::ServerHeader& header) override {
    const auto update = server::from_extension<FedGSyncUpdate>(header.extension);
    sketches_[rank] = update->sketch;
    samples_[rank] = update->shard;
  }

  // on UPDATE(i, r')
  Taken commit(Rank from, const server::ServerHeader& header, std::span<const float> values,
               Turn& turn) override {
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

  bool may_read(Rank rank) const override { return !pending_.contains({rank, store().version()}); }
  // The first model is given when all have asked for it, and so have sent a sketch.
  void on_model_sent(Rank rank, Turn& turn) override {
    if (groups_.empty()) {
      group(turn);
      began_ = turn.now();
    }
    urgencies_.given(rank, turn.now());
  }

  server::Extension model_extension(Rank rank) override {
    const auto found = classes_.find(rank);
    told_[rank] = found == classes_.end() ? 0 : found->second;
    return server::to_extension(FedGSyncModel{told_[rank], refused_.erase(rank) > 0});
  }

  // Its update of this round stays; it has no sketch in the next grouping.
  void drop(Rank rank) override {
    urgencies_.lose(rank);
    sketches_.erase(rank);
    refused_.erase(rank);
    told_.erase(rank);
    ++lost_;
  }

  void on_loss(Turn& turn) override { advance(turn); }
  void on_takeover(Turn& turn) override { set_deadline(began_ = turn.now(), turn); }

  void group(Turn& turn) {
    groups_.clear();
    for (auto& members :
         grouping::group_by_sketch(sketches_, config_.groups, turn.place().seed, rounds()))
      groups_.push_back({.members = std::move(members)});
    grouping::set_shares(groups_, samples_, config_.share == "data");
    lost_ = 0;
    turn.record("groups", rounds(), double(groups_.size()));
  }

  void advance(Turn& turn) {
    if (groups_.empty() || over()) return;
    if (are_quotas_met(turn)) end_round(turn);
    classify(turn);
  }

  bool are_quotas_met(const Turn& turn) const {
    return std::ranges::all_of(needs(turn), &grouping::Need::met);
  }

  // W_{r+1} = W_r + eta_g sum_g pi_g D_g; running statistics are the same mean of theirs. Without
  // any
  // update there is nothing to commit: the round goes on.
  void end_round(Turn& turn) {
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

  // Groups that have missed the quota of this round, and of the one before, wait for one from now
  // on.
  void judge(Turn& turn) {
    const auto all = needs(turn);
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      groups_[g].missed = all[g].met ? 0 : groups_[g].missed + 1;
      if (groups_[g].missed < 2) continue;
      groups_[g].one_is_enough = true;
      turn.record("suspected_group", rounds(), double(g));
    }
  }

  bool is_in_a_group(Rank rank) const {
    return std::ranges::any_of(groups_, [rank](const grouping::Group& group) {
      return std::ranges::binary_search(group.members, rank);
    });
  }

  // One has returned, after groups had been made without it.
  bool leaves_one_out() const {
    return std::ranges::any_of(sketches_, [&](const auto& of) { return !is_in_a_group(of.first); });
  }

  // Updates of workers that are in no group are in no mean.
  void record_used(Turn& turn) {
    for (const auto& [key, update] : pending_) {
      const Rank rank = key.first;
      if (is_in_a_group(rank))
        used_samples(rank, turn);
      else
        turn.record("push_discarded", rounds(), double(rank));
    }
  }

  void set_deadline(Time since, Turn& turn) {
    const auto allowed = times_.medians(config_.round_deadline);
    if (!allowed) return;
    deadline_ = since + *allowed;
    turn.set_timer(*this, kDeadline, deadline_);
  }

  // The quota counts live members, and fresh updates of any member meet it.
  std::vector<grouping::Need> needs(const Turn& turn) const {
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

  // Workers at an update hear its class when it has changed.
  void classify(Turn& turn) {
    if (!config_.differential || over()) return;
    const auto all = needs(turn);
    classes_ = urgencies_.classes(all, turn.now());
    for (const auto& [rank, of] : classes_)
      if (told_[rank] != of && notify(rank, server::to_extension(FedGSyncModel{of})))
        told_[rank] = of;
    if (const auto late = urgencies_.next_late(all, turn.now()))
      turn.set_timer(*this, kLate, *late);
  }

  const FedGSyncConfig config_;
  std::vector<grouping::Group> groups_;
  grouping::Pending pending_;                    // updates of the open round
  std::map<Rank, std::vector<float>> sketches_;  // the newest of each live worker
  std::map<Rank, std::uint64_t> samples_;        // that each holds
  std::map<Rank, std::uint64_t> next_;           // updates from older versions it has given before
  std::set<Rank> refused_;                       // to be told
  std::uint32_t lost_ = 0;                       // since groups were made
  Time began_{0};                                // the open round
  Time deadline_{0};                             // of it, once three rounds are known
  RoundTimes times_;
  grouping::Urgencies urgencies_;
  std::map<Rank, std::uint8_t> classes_, told_;
};

}  // namespace longhaul::sync
