#pragma once
// Selective multicast, lock step: after its local steps each worker sends its model to a few
// receivers, chosen by bandwidth so that all are done soon, and mixes its model with those that it
// receives.
//   Luo et al., "Efficient parameter synchronization for peer-to-peer distributed learning with
//   selective multicast", IEEE Transactions on Services Computing, 2024, algorithm 1. Ours: the
//   mixing, what happens on a loss, and that rates are those of [wan].
//
// With M_i for the workers whose models worker i receives in a round, in the order of ranks, in
// double, rounded once:
//   x_i <- (x_i + sum_{j in M_i} x_j) / (1 + |M_i|)
// With payload = "update" and n workers, d_ji for what j owes i (selmcast/debts.h):
//   x_i <- x_i + sum_{j in M_i} d_ji
//
// With models, a worker that comes back is given the manager's (selmcast/planning.h). With updates
// nobody could say which of them are in the model that it would get.
#include "longhaul/core/vector_channel.h"
#include "longhaul/sync/gossip/final_return.h"
#include "longhaul/sync/selmcast/config.h"
#include "longhaul/sync/selmcast/debts.h"
#include "longhaul/sync/selmcast/planning.h"
#include "longhaul/sync/state_transfer.h"

namespace longhaul::sync {

class Selmcast final : public Strategy {
 public:
  static SyncEntry entry();
  using Config = selmcast::Config;
  Selmcast(const Config&, SyncParts, const Place&);
  static Status check(const Config& config, const Place& place) {
    return selmcast::check(config, place);
  }

  void on_start(Turn&) override;
  void on_view(const View& before, Turn&) override;
  void on_computed(const Computed&, Turn&) override;
  void on_progress(Turn&) override;
  bool lets_return() const override { return !sends_updates(); }
  Round rounds_done() const override { return done_; }
  std::string waiting_for() const override;
  Explanation explain() const override;
  void state(Archive&) override;

 private:
  using Channel = VectorChannel<selmcast::Header>;
  enum class Phase : std::uint8_t {
    not_started,
    ready,
    computing,
    planning,    // waits for the plan
    exchanging,  // sends its model, and waits for those that the plan says
    deciding,    // waits for a verdict
    averaging,   // takes part in the mean that the run ends with
    ended,
    outside  // has come back: waits for a model
  };

  Result<bool> admit(Rank from, const selmcast::Header&, const ContentShape&);
  void receive(Turn&);
  void add_late(const Channel::Received&);
  bool advance(Turn&);
  void exchange(Turn&);
  void send_model(Turn&);
  void send_debts(Turn&);
  bool sends_updates() const { return config_.payload == "update"; }
  std::vector<Rank> missing() const;
  void mix(Turn&);
  void settle(Turn&);
  void end_round(Turn&);
  void let_in(Turn&);
  void archive_for_returned(Archive&, Turn&);
  bool enter(Turn&);
  Result<bool> take_final(Turn&);
  void fail(const Error&, Turn&);

  const Config config_;
  const std::uint64_t size_;  // of the layout
  const Place place_;
  gossip::FinalMean final_;
  gossip::FinalReturn final_return_;
  std::unique_ptr<Channel> channel_;
  const selmcast::PlanConfig plan_config_;
  selmcast::Planning planning_;
  StopRule stop_;
  StateTransfer state_transfer_;

  Phase phase_ = Phase::not_started;
  Round done_ = 0;                     // also the round that runs
  Round joined_at_ = 0;                // its first
  std::uint64_t samples_ = 0;          // that this worker has used
  std::uint64_t all_samples_ = 0;      // that all have, by the last plan
  selmcast::Planning::Plan plan_;      // of the round that runs
  std::set<Rank> admitted_;            // whose model of this round is here or on its way
  std::map<Rank, Snapshot> received_;  // of this round
  std::set<Rank> sending_;             // receivers for which the host does not have all yet
  Time asked_{0}, planned_{0};         // since when the plan is awaited; when it came
  selmcast::RateMeter meter_;
  selmcast::Debts debts_;  // payload = "update"
  Snapshot late_;          // the same: sum of what came of rounds that were over here
};

}  // namespace longhaul::sync
