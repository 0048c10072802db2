#pragma once
// Selective multicast with bounded staleness: each worker sends its model when its steps are done,
// to receivers that are chosen then, and goes on when they have said that they have it. It mixes
// the models that have come at its next step boundary, and begins no round that is more than
// `staleness` ahead of the slowest worker's.
//   Luo et al., "Efficient parameter synchronization for peer-to-peer distributed learning with
//   selective multicast", IEEE Transactions on Services Computing, 2024, algorithm 2. Ours: the
//   mixing, what happens on a loss, and that rates are those of [wan].
//
// With M for the workers whose models have come since the last boundary, the newest of each, in the
// order of ranks, in double, rounded once:
//   x <- (x + sum_{j in M} x_j) / (1 + |M|)
// A round of the run is as many rounds of workers as there are workers (gossip/step_count.h).
#include "longhaul/core/vector_channel.h"
#include "longhaul/sync/gossip/final_mean.h"
#include "longhaul/sync/gossip/step_count.h"
#include "longhaul/sync/selmcast/config.h"
#include "longhaul/sync/selmcast/ssp_planning.h"

namespace longhaul::sync::selmcast {

class SspWorker final : public Strategy {
 public:
  SspWorker(const Config&, SyncParts, const Place&);

  void on_start(Turn&) override;
  void on_view(const View& before, Turn&) override;
  void on_step(const StepResult&, Turn&) override;
  void on_computed(const Computed&, Turn&) override;
  void on_timer(TimerId, Turn&) override;
  void on_progress(Turn&) override;
  Round rounds_done() const override { return count_.rounds(); }
  std::string waiting_for() const override;
  Explanation explain() const override;
  void state(Archive&) override;

 private:
  using Channel = VectorChannel<Header>;
  enum class Phase : std::uint8_t {
    not_started,
    ready,  // waits until it may begin a round
    computing,
    planning,   // waits for its receivers
    sending,    // until they have its model
    waiting,    // has done its rounds, waits for the end of the run
    averaging,  // takes part in the mean that the run ends with
    ended
  };

  Result<bool> admit(Rank from, const Header&, const ContentShape&);
  void receive(Turn&);
  bool advance(Turn&);
  void mix(Turn&);
  void send(std::vector<Rank> receivers, Turn&);
  void withdraw(Turn&);
  void say_progress(Turn&);
  void end_round(Turn&);
  void close(Turn&);
  void fail(const Error&, Turn&);

  const Config config_;
  const std::uint64_t size_;  // of the layout
  const Place place_;
  gossip::FinalMean final_;
  std::unique_ptr<Channel> channel_;
  const PlanConfig plan_;
  SspPlanning planning_;
  gossip::StepCount count_;

  Phase phase_ = Phase::not_started;
  Round done_ = 0;                     // of this worker; also the round that runs
  bool has_begun_ = false;             // planning_ knows of this round
  std::uint64_t samples_ = 0;          // of this round
  std::map<Rank, Round> newest_;       // by sender: one after the newest round that was admitted
  std::map<Rank, Snapshot> received_;  // since the last boundary
  VectorHandle handle_ = 0;            // of the model that is sent
  std::set<Rank> receivers_;           // of it, without those that were withdrawn
  std::set<Rank> unserved_;            // of them: who does not have it yet
  Time asked_{0}, sent_at_{0}, round_at_{0};  // round_at_: when the round before ended
  RateMeter meter_;
};

}  // namespace longhaul::sync::selmcast
