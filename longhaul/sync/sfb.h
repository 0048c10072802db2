#pragma once
// Sufficient factor broadcasting. Every worker holds a whole copy of the model. The gradient of a
// fully connected layer is u^T v, with K rows each for a batch of K samples. Workers send each
// other u and v, K (out + in) numbers instead of out x in, and multiply.
//   Xie et al., "Distributed machine learning via sufficient factor broadcasting", 2015
//   (arXiv:1511.08486): factors from peer to peer; Zhang et al., "Poseidon: An Efficient
//   Communication Architecture for Distributed Deep Learning on GPU Clusters", ATC 2017: the choice
//   between factors and the matrix for each layer.
//
// Worker p of P, clock c, B_q samples in the step of worker q, staleness s:
//   wait until every worker has sent clock c - s - 1
//   u_p, v_p <- factors of each layer of Parts, r_p <- the rest of the gradient;  send u_p, v_p
//   s = 0:  g <- sum B_q u_q^T v_q / sum B_q in the order of ranks, and the mean of r
//           w <- opt(w, outer(g)), once a clock
//   s > 0:  for each clock of each worker, when all of it has arrived:
//           w <- w - rate(c) / P  u_q^T v_q;  r is sent with the factors
//   partial spread, s = 0:
//           u_p, v_p go to Q others; q: this worker and those that send to it in clock c;
//           every mean_every clocks, and at the end, all models are averaged
// The gradient of a bias is the sum of the rows of u. Not from the papers: the order of the sums,
// tree, site and partial spread, the recovery after losses, returns and the hashes.
#include <map>

#include "longhaul/core/registry.h"
#include "longhaul/core/vector_channel.h"
#include "longhaul/sync/gossip/final_return.h"
#include "longhaul/sync/optimizer_transfer.h"
#include "longhaul/sync/sfb/config.h"
#include "longhaul/sync/sfb/encoding.h"
#include "longhaul/sync/sfb/recovery.h"
#include "longhaul/sync/sfb/spread.h"
#include "longhaul/sync/sfb/store.h"

namespace longhaul::sync {

class Sfb final : public Strategy {
 public:
  static SyncEntry entry();
  using Config = sfb::Config;
  Sfb(const Config&, SyncParts, const Place&);

  void on_start(Turn&) override;
  void on_step(const StepResult&, Turn&) override;
  void on_computed(const Computed&, Turn&) override;
  void on_progress(Turn&) override;
  Round rounds_done() const override { return clock_; }
  bool lets_return() const override { return !adopts(); }
  std::string waiting_for() const override;
  void state(Archive&) override;

  // For tests.
  const sfb::Parts& parts() const { return parts_; }
  const sfb::FactorStore& store() const { return store_; }
  bool is_averaging() const { return phase_ == Phase::averaging; }

 private:
  using FactorChannel = VectorChannel<sfb::FactorsHeader>;
  using ControlChannel = VectorChannel<sfb::ControlHeader>;
  using ModelChannel = VectorChannel<sfb::AdoptedHeader>;
  // Ranges of the overlay's vectors: buffers, or whole models with partial spread.
  static constexpr std::uint32_t kBuffersRange = 1;
  static constexpr std::uint32_t kHashRange = 1u << 24;  // after the ranges of all stages
  enum class Phase : std::uint8_t {
    unstarted,
    ready,  // waits until it may begin its clock
    computing,
    exchanging,  // staleness 0: waits for the gradients of all workers
    applying,    // the optimiser applies the sum
    mixing,      // partial spread: takes part in a mean of models
    comparing,   // on_divergence = "adopt": takes part in a comparison of hashes
    adopting,    // copies differ: sends its model, or waits for another worker's
    deciding,    // waits for a verdict
    flushing,    // copies differ, after the last clock: waits for the rest of the clocks to apply
    averaging,   // copies differ: takes part in the mean that the run ends with
    ended,
    failed,
    outside,    // has returned, and waits for a model
    restoring,  // staleness 0: has a model, and sets the optimiser
    entering    // staleness > 0: has a model; waits to learn if the run ends before its first clock
  };
  struct Handed {  // part of the state for a returned worker, before the rest
    Epoch epoch = 0;
    Round clock = 0;
    std::uint64_t samples = 0;
    bool is_over = false;        // no clock follows
    std::map<Rank, Round> done;  // clocks of each origin that are in the model
    void state(Archive& ar) { ar(epoch, clock, samples, is_over, done); }
  };
  struct GivenModel {
    Rank from = 0;
    Bytes bytes;
    void state(Archive& ar) { ar(from, bytes); }
  };

  // --- sfb.cpp: the clocks of this worker ------------------------------------------------------
  bool advance(Turn&);
  bool is_eager() const { return config_.staleness > 0; }
  bool is_partial() const { return spread_ == sfb::Spread::partial; }
  bool adopts() const { return config_.on_divergence == "adopt"; }
  bool copies_differ() const { return is_eager() || is_partial(); }
  bool has_factors() const { return kinds_of_parts() > 0; }
  std::uint32_t kinds_of_parts() const;
  void end_clock(Turn&);
  void finish_clock(Turn&);
  void close_clock(Turn&);
  bool decide(Turn&);
  bool end_run(Turn&);
  // Returns true if all counted factors from clock 0 to before `clocks` have arrived.
  bool is_complete(Round clocks) const;
  std::vector<Rank> origins(Round clock) const;  // workers whose gradients count here, ascending
  bool can_apply() const;                        // all factors that clock_ waits for have arrived
  std::uint32_t parties() const;                 // live workers whose gradients of clock_ count
  void fail(const Error&, Turn&);

  // --- applying gradients -----------------------------------------------------------------------
  void apply_sum(Turn&);
  void apply_arrived(Turn&);
  void apply_eagerly(const sfb::FactorStore::Piece&, Turn&);
  double saved_bytes(std::size_t parties) const;

  // --- computing, and sending the results -------------------------------------------------------
  void compute(Turn&);
  void on_stage(const StepResult&, Turn&);
  void send_factors(const StepResult&, const std::vector<std::uint32_t>& layers, Turn&);
  void send_rest(Turn&);
  void begin_mean(Turn&);
  void begin_buffers(Turn&);
  bool is_mean_here();
  // Returns the length of each vector that the overlay averages in a clock, by range.
  std::map<std::uint32_t, std::uint64_t> mean_lengths() const;

  // --- sfb_exchange.cpp: partial spread ---------------------------------------------------------
  std::vector<Rank> workers_of(Round clock) const;    // workers whose gradients count, ascending
  std::vector<Rank> senders_of(Round clock) const;    // workers that send it to this worker
  std::vector<Rank> receivers_of(Round clock) const;  // workers that this worker sends it to
  std::vector<Rank> partners(Round clock, decltype(sfb::partial_senders)& by_clock) const;
  void send_to_all(Turn&);
  void begin_mixing(Turn&);
  bool end_mixing(Turn&);

  // --- sfb_exchange.cpp: sending and receiving -------------------------------------------------
  Result<bool> admit(Rank from, const sfb::FactorsHeader&, const ContentShape&) const;
  Result<bool> admit_control(const sfb::ControlHeader&, const ContentShape&) const;
  bool counts(const sfb::FactorsHeader&) const;
  Round furthest() const;
  void spread(const sfb::FactorStore::Piece&, Turn&);
  void send(const std::vector<Rank>& to, const sfb::FactorStore::Piece&, Turn&);
  void enter_view(Turn&);
  void receive(Turn&);
  Status check(const sfb::FactorsHeader&, const VectorContent&) const;
  void receive_control(Turn&);
  void settle(Turn&);
  sfb::ControlHeader report(Turn&);
  void repeat_own(Turn&);
  void repeat(Rank origin, Round clock, Rank to, Turn&);
  std::vector<Rank> others() const;

  // --- whether copies are equal -----------------------------------------------------------------
  bool is_compared(Turn&) const;  // the model after clock_ clocks is to be compared
  std::uint64_t hash_of_model(Turn&) const;
  void send_hash(Turn&);
  void note_hash(Rank, Round clock, std::uint64_t hash, Turn&);
  void begin_comparison(Turn&);
  bool end_comparison(Turn&);
  bool adopt(Turn&);
  void archive_model(Archive&, Turn&);
  void give_model(Turn&);
  void take_model(Turn&);
  Result<bool> admit_model(const sfb::AdoptedHeader&, const ContentShape&) const;
  void receive_model(Turn&);

  // --- returned workers -------------------------------------------------------------------------
  bool knows_model() const { return phase_ != Phase::outside; }
  bool is_proven(const std::map<Rank, Epoch>& before, Turn&) const;
  void leave_run();
  bool gives_state(Turn&) const;
  void hand_over(Turn&);
  void archive_for_returned(Archive&, Handed&, Turn&);
  bool come_in(Turn&);
  bool stand_in(Turn&);
  bool take_state(bool is_at_entry, Turn&);
  void begin_from(const Handed&, Turn&);
  bool enter_run(Turn&);

  const Config config_;
  const Place place_;
  const std::uint32_t batch_;
  const double rate_;
  const std::function<double(std::uint64_t step)> rate_share_;
  const sfb::Spread spread_;
  const std::uint32_t lead_;  // partial spread: maximum lead over another worker, in clocks; else 0
  Coder coder_;
  const sfb::Parts parts_;
  // One stage with the whole model, unless wait_free.
  const std::vector<sfb::BackwardStage> stages_;
  gossip::FinalMean final_;  // the overlay also forms the mean of the rest
  std::unique_ptr<Transform> outer_;
  std::unique_ptr<FactorChannel> factors_;
  std::unique_ptr<ControlChannel> control_;
  std::unique_ptr<ModelChannel> models_;  // null unless on_divergence = "adopt"
  StopRule stop_;
  StateTransfer state_transfer_;
  gossip::FinalReturn final_return_;
  OptimizerTransfer optimizer_;

  Phase phase_ = Phase::unstarted;
  Round clock_ = 0;                         // clocks done
  std::uint64_t samples_ = 0;               // samples used by all workers, as far as applied here
  StepResult step_;                         // valid within one turn
  std::uint32_t stage_ = 0;                 // index in stages_ of the current stage
  std::uint64_t own_samples_ = 0;           // samples of this worker in this clock
  double compute_s_ = 0;                    // time of the steps of this clock
  std::map<std::uint32_t, Outcome> means_;  // means of the rest, by stage
  std::optional<Outcome> extras_;
  sfb::FactorStore store_;
  std::map<Rank, Round> applied_;  // staleness > 0: applied clocks of each origin
  Time asked_{0};
  std::uint64_t sent_bytes_ = 0;  // bytes of factors sent to all receivers in this clock

  bool has_entered_ = false;  // whether it has entered its first view
  Epoch epoch_ = 0;
  std::vector<Rank> live_;       // workers of that view, ascending
  std::map<Rank, Epoch> since_;  // as View::returned
  bool is_settled_ = true;       // whether the clocks that count in this view are known
  sfb::Recovery recovery_;
  // Partial spread: newest clock of any worker when the view was settled, which goes to all
  // workers.
  std::optional<Round> meeting_;
  bool has_mixed_ = false;                 // whether it has had a mean of models
  std::map<Rank, Round> owed_;             // workers outside, with their entry clocks
  std::map<std::uint32_t, Round> stands_;  // by range: round joined without a contribution
  Round proof_ = 0;  // once all have sent the clocks before this, all have the state's gradients
  std::map<Round, std::map<Rank, std::uint64_t>> hashes_;
  Round comparisons_ = 0;  // number of comparisons with a known outcome
  Rank giver_ = 0;         // adopting: rank of the model's sender
  std::optional<GivenModel> given_;
};

}  // namespace longhaul::sync
