#pragma once
// Synchronous runs a strategy in rounds: every worker computes, all receive the mean of their
// results, all use it, and all decide alike whether another round follows. A strategy defines what
// is computed (begin_round, on_computed) and how the mean is used (use_mean).
//
// A node that returns asks the overlay which round runs, and takes part in it and in the next ones
// without contributing, so that the others do not wait for it. At the end of its first round the
// senior worker begins to send its state, beside the rounds. When the state has arrived, the
// returned node applies the means of the rounds since then, and contributes to the next one. A
// change of the members begins this anew.
#include <map>
#include <optional>
#include <set>

#include "longhaul/core/registry.h"
#include "longhaul/sync/follower.h"
#include "longhaul/sync/quorum.h"
#include "longhaul/sync/state_transfer.h"

namespace longhaul::sync {

// A worker's contribution to the mean of a round.
struct LocalResult {
  std::span<const float> values;   // one per parameter; empty for a phantom
  std::span<const float> buffers;  // as in the layout; empty for a phantom
  double weight = 1;
  double loss = 0;               // mean over its steps
  std::uint64_t samples = 0;     // in its steps
  std::vector<float> scalars{};  // as many on all nodes; averaged as exact values
};

class Synchronous : public Strategy {
 public:
  void on_start(Turn&) final;
  void on_view(const View& before, Turn&) final;
  void on_progress(Turn&) final;
  void state(Archive&) override;
  Round rounds_done() const final { return done_; }
  bool lets_return() const final { return lets_return_; }
  std::string waiting_for() const override;

 protected:
  // Name and lets_return() are those of the strategy's entry. A view of fewer than `min_sites`
  // sites with workers ends the run. `service`: a machine that nodes without a learner have, too
  // (Relay).
  Synchronous(const SyncEntry&, SyncParts parts, std::uint32_t min_sites = 1,
              std::unique_ptr<Machine> service = nullptr);

  // --- what a strategy is made of ---------------------------------------------------------------
  // Once, at the first step boundary; params() is the initial model, equal at all nodes.
  virtual void begin_run(Turn&) {}
  // A round starts: compute, or stand_by().
  virtual void begin_round(Turn&) = 0;
  // The weighted mean of the contributions, empty for phantoms; params() has that of the buffers
  // already. Compute, or end_round().
  virtual void use_mean(std::span<float> mean, Turn&) = 0;
  // The mean of the vectors given to contribute_second() in use_mean(). Compute, or end_round().
  virtual void use_second_mean(std::span<float> /*mean*/, Turn&) {}
  // Length of the vectors given to contribute(), also of a phantom's. Equal at all nodes.
  virtual std::size_t exchanged(const Turn& turn) const {
    return turn.place().layout->parameters().length;
  }
  // The same for contribute_second(); 0: it is not called. Equal at all nodes.
  virtual std::size_t exchanged_second() const { return 0; }
  // Number of parts of the parameters, which are averaged in turn, one a round; exchanged() is the
  // length of the round's. Codecs keep a residual for each.
  virtual std::uint32_t fragments() const { return 1; }
  // The round's mean has fewer contributors than quorum(), or none.
  virtual void use_nothing(Turn& turn) { end_round(turn); }
  // A mean of fewer contributors is not used; with fewer live workers the run ends. Equal at all
  // nodes. Above 1 a strategy keeps its contribution until the mean has arrived.
  virtual std::size_t quorum() const { return 1; }
  // The model that a mean changes: parameters and buffers. params(), unless rounds continue while
  // the learner computes.
  virtual std::span<float> model(Turn& turn) { return turn.params(); }
  // May model() be read now?
  virtual bool has_model(const Turn& turn) const { return !turn.learner_is_busy(); }
  // May the mean be used now? Asked in every turn. A strategy that computes meanwhile agrees at a
  // step boundary.
  virtual bool takes_mean(Turn&) const { return true; }
  // Called before the mean is used, with params() still without it.
  virtual void mean_came(Turn&) {}
  // The run is over: may this node finish now, with the last round's model in params()? Asked in
  // every turn.
  virtual bool close(Turn&) { return true; }
  // Is the run over by the strategy's own rule? Equal at all nodes.
  virtual bool is_over() const { return false; }
  // This node has returned and has the senior worker's state and parameters. use_mean() follows for
  // the rounds since that state, to which this node has not contributed.
  virtual void on_returned(Turn&) {}
  // Has the learner what on_returned() got? Else compute; asked again after that.
  virtual bool learner_is_set(Turn&) { return true; }
  // Is state() complete, so that it can be sent to a node that has returned? Else compute; asked
  // again after that.
  virtual bool ready_to_send_state(Turn&) { return true; }
  // Nothing more can be done in this turn.
  virtual void on_idle(Turn&) {}
  // The time from the contribution to the use of the mean, or from the end of a round to its
  // verdict.
  enum class Wait : std::uint8_t { exchange, verdict };
  virtual void waited(Wait, Time took, Turn&);
  // Number of scalars in a LocalResult.
  virtual std::size_t scalars() const { return 0; }
  // Can it say of a sample whether it is in the model?
  virtual bool counts_samples() const { return true; }
  // Does its state, as received from the senior worker, fit a model of this size (phantom: 0)?
  virtual bool fits(std::size_t parameters) const { return parts_.outer->fits(parameters); }

  // --- what it calls ----------------------------------------------------------------------------
  Round round() const { return done_; }
  Transform& outer() { return *parts_.outer; }
  std::unique_ptr<Transform> make_outer() const { return parts_.make_outer(); }
  // To the mean of this round.
  void contribute(const LocalResult&, Turn&);
  // The same, with loss and samples of `computed` and the buffers of params().
  void contribute(std::span<const float> values, double weight, const Computed& computed, Turn&);
  // To a second mean in this round, with the weight of the first.
  void contribute_second(std::span<const float> values, Turn&);
  // The mean of the round's scalars, in use_mean; zeros for a phantom.
  std::span<const float> mean_scalars() const;
  // Number of workers in the mean of this round, in use_mean; equal at all nodes.
  std::size_t contributors() const { return mean_->counted.size(); }
  // Takes part in this round's exchange without a share. The learner may compute.
  void stand_by(Turn&);
  // Ends the round with model(), or `model`.
  void end_round(Turn& turn) { end_round(model(turn), turn); }
  void end_round(std::span<const float> model, Turn&);
  // The mean of this round has arrived and is not used yet.
  bool mean_is_here(const Turn& turn) const {
    return phase_ == Phase::averaging && mean_ && (extras(turn) == 0 || extras_);
  }
  bool working() const { return phase_ == Phase::working; }  // nothing contributed to the round yet
  // Uses the means of rounds to which this node, which has returned, has not contributed.
  bool is_catching_up() const { return follower_.catches_up; }
  // How long the last contribution took to leave this node (Outcome::gave).
  Time gave() const { return gave_; }
  Machine* service() { return service_.get(); }

 private:
  static constexpr std::uint32_t kParameters = 0, kExtras = 1,
                                 kSecond = 2,  // ranges of the exchange's key
      kFragments = 8;                          // and further: with several, one each
  enum class Phase : std::uint8_t {
    not_started,
    ready,
    working,
    averaging,
    averaging_again,  // the second mean
    deciding,
    ended,
    // of a returned node
    finding_round,  // does not know which round runs
    standing_in,    // takes part in a round without contributing
    awaiting_state  // holds as many means as it may: the others wait for it
  };

  // Identifies the exchange of this range in this round.
  VectorId key(std::uint32_t range) const;
  bool advance(Turn&);
  bool collect(Turn&);
  bool collect_second(Turn&);
  void exchange(const LocalResult&, bool contributes, Turn&);
  // Number of exact values that are averaged beside the parameters: buffers, scalars, and a count
  // of samples if the run stops by it.
  std::uint64_t extras(const Turn&) const;
  void note_left_out(Turn&);
  void record_counted(Turn&);
  void take_extras(const Outcome&, Turn&);
  void fail(const Error&, Turn&);

  // --- of nodes that return
  std::uint64_t length_of(std::uint32_t range, const Turn&) const;
  std::optional<Round> next_round(std::uint32_t range) const;
  std::optional<Outcome> poll(std::uint32_t range);
  bool find_round_anew(Turn&);
  bool stand_in_for_round(Turn&);
  bool end_stand_in(Turn&);
  bool begin_from_state(Turn&);
  bool catch_up(Turn&);
  void confirm_state(Turn&);
  void note_who_needs_state(const Turn&);
  void follow_returned(const View& before, Turn&);
  void send_state(bool last, Turn&);
  void archive_state(Archive&, Turn&);

  const std::string name_;
  const bool lets_return_;
  const std::uint32_t min_sites_;
  SyncParts parts_;
  const std::unique_ptr<Machine> service_;
  StopRule stop_;

  Phase phase_ = Phase::not_started;
  Round done_ = 0;                        // also the round that runs
  std::uint64_t samples_ = 0;             // used by all nodes in the rounds done; if counted
  double weight_ = 1;                     // this node's, in the round's means
  RankList counted_;                      // live contributors to the last mean ...
  Round counted_in_ = 0;                  // ... and its round
  Time asked_{0};                         // since when this round's mean is awaited
  Time over_{0};                          // when the last round ended
  std::optional<Outcome> mean_, extras_;  // this round's, until both have arrived
  Time gave_{0};
  std::vector<float> scalars_;  // the last mean
  // Live workers that have returned, with the epoch, until they are known to have the model.
  std::map<Rank, Epoch> returned_;
  bool preparing_state_ = false;  // computes what ready_to_send_state() asked for
  std::set<Rank> needs_state_;    // those that wait for the state of the next round
  StateTransfer state_transfer_;
  Follower follower_;  // at a returned node, until it has caught up
};

}  // namespace longhaul::sync
