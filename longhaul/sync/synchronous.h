#pragma once
// Synchronous is what the strategies that work in rounds have in common: every worker computes, all
// hold the mean of what they computed, all use it, all decide alike whether another round follows.
// A strategy says what is computed (begin_round, on_computed) and what the mean is for (use_mean).
//
// A node that returns (returning.cpp) asks the overlay which round runs, and takes part in it
// without contributing, so that the others do not wait for it. At the end of that round the senior
// worker sends its state, and the next round begins at the returned node as at all others. If the
// senior worker is lost meanwhile, the next senior sends its state at the end of the next round.
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string_view>

#include "longhaul/core/registry.h"
#include "longhaul/sync/state_transfer.h"

namespace longhaul::sync {

// What a worker brings to the mean of a round.
struct LocalResult {
  std::span<const float> values;   // one per parameter; a phantom's are empty
  std::span<const float> buffers;  // as the layout has them; a phantom's are empty
  double weight = 1;
  double loss = 0;               // mean over the steps that it is from
  std::uint64_t samples = 0;     // of those steps
  std::vector<float> scalars{};  // as many on all nodes; averaged as exact values
};

// The setting min_sites: how many sites with workers a run goes on with.
template <class Visit, class Value>
void visit_min_sites(Visit&& visit, Value& min_sites) {
  visit(Field{.name = "min_sites", .doc = "sites that must be left, else the run ends", .min = 1},
        min_sites);
}
// An Error if the job has fewer sites with workers than `min_sites`.
Status check_min_sites(std::uint32_t min_sites, const Place&);
// An Error if the view has workers at fewer sites, with the names of the sites that are lost.
Status enough_sites(std::uint32_t min_sites, const Place&, const View&);

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
  // Once, at the first step boundary: params() is what training starts from, equal on all.
  virtual void begin_run(Turn&) {}
  // A round starts: compute, or stand_by().
  virtual void begin_round(Turn&) = 0;
  // The weighted mean of what the workers contributed, empty for phantoms; the buffers' is in
  // params() already. Compute, or end_round().
  virtual void use_mean(std::span<float> mean, Turn&) = 0;
  // The mean of what contribute_second() was given within use_mean(). Compute, or end_round().
  virtual void use_second_mean(std::span<float> /*mean*/, Turn&) {}
  // How many values contribute() is given; a phantom's, too. Equal at all nodes.
  virtual std::size_t exchanged(const Turn& turn) const {
    return turn.place().layout->parameters().length;
  }
  // How many values contribute_second() is given in each round; 0: it is not called. Equal at all
  // nodes.
  virtual std::size_t exchanged_second() const { return 0; }
  // Into how many parts the parameters are cut, each of which has a mean of its own, one a round in
  // turn: exchanged() is of the round's. Codecs keep what they lost of a part with it.
  virtual std::uint32_t fragments() const { return 1; }
  // The round's mean is empty, all who gave something to it being lost or late, or it is of fewer
  // than quorum().
  virtual void use_nothing(Turn& turn) { end_round(turn); }
  // A mean that fewer workers gave something to is not used; with fewer live workers the run ends.
  // Equal at all nodes. Above 1: what was given must be kept until the mean is here.
  virtual std::size_t quorum() const { return 1; }
  // What a mean changes, and what a round leaves: parameters and buffers. Of a strategy whose
  // rounds go on while the learner computes: what stands for params() meanwhile.
  virtual std::span<float> model(Turn& turn) { return turn.params(); }
  // May model() be read now?
  virtual bool has_model(const Turn& turn) const { return !turn.learner_is_busy(); }
  // May the mean be used now? Asked again in every turn. Of a strategy that computes meanwhile:
  // only at a step boundary.
  virtual bool takes_mean(Turn&) const { return true; }
  // It is about to be used: the last sight of params() without it.
  virtual void mean_came(Turn&) {}
  // The run ends with the round that has ended: may it now, with that round's model in params()?
  // Asked again in every turn.
  virtual bool close(Turn&) { return true; }
  // Does the run end with the round that has ended, by the strategy's own rule? Equal at all nodes.
  virtual bool is_over() const { return false; }
  // This node has returned and begins with the state that it received; params() are those of
  // the senior worker.
  virtual void on_returned(Turn&) {}
  // This node is to send its state to one that has returned: is all in state() that the other
  // needs? Else compute; asked again when that is done.
  virtual bool ready_to_send_state(Turn&) { return true; }
  // Nothing more can be done in this turn.
  virtual void on_idle(Turn&) {}
  // It took so long from having contributed to using the mean, or from the round's end to the
  // verdict that lets the next begin.
  enum class Wait : std::uint8_t { exchange, verdict };
  virtual void waited(Wait, Time took, Turn&);
  // How many scalars its results have.
  virtual std::size_t scalars() const { return 0; }
  // Can it say of a sample whether it is in the model?
  virtual bool counts_samples() const { return true; }
  // Can its state, which the senior worker may have handed over, be that of so many parameters
  // (none of a phantom)?
  virtual bool fits(std::size_t parameters) const { return parts_.outer->fits(parameters); }

  // --- what it calls ----------------------------------------------------------------------------
  Round round() const { return done_; }
  Transform& outer() { return *parts_.outer; }
  std::unique_ptr<Transform> make_outer() const { return parts_.make_outer(); }
  // To the mean of this round.
  void contribute(const LocalResult&, Turn&);
  // The same: `computed` is what the values are from, the buffers are those of params().
  void contribute(std::span<const float> values, double weight, const Computed& computed, Turn&);
  // To a further mean in this round, of exchanged_second() values, with the weight of the first.
  void contribute_second(std::span<const float> values, Turn&);
  // The mean of the round's scalars (of the last one that had any); within use_mean. A phantom's
  // are zeros.
  std::span<const float> mean_scalars() const;
  // How many gave something to the mean of this round, equal at all nodes; within use_mean.
  std::size_t contributors() const { return mean_->counted.size(); }
  // Takes part in this round's exchange without a share. The learner may compute.
  void stand_by(Turn&);
  // model(), or `model`, is what this round leaves.
  void end_round(Turn& turn) { end_round(model(turn), turn); }
  void end_round(std::span<const float> model, Turn&);
  // The mean of this round has come, and takes_mean() has refused it so far.
  bool mean_is_here(const Turn& turn) const {
    return phase_ == Phase::averaging && mean_ && (extras(turn) == 0 || extras_);
  }
  bool working() const { return phase_ == Phase::working; }  // nothing contributed to the round yet
  // How long the newest contribution that has left this node took to (Outcome::gave).
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
    awaiting_state  // waits for the state that the next round begins with
  };

  // Of the exchange of this range in this round.
  VectorId key(std::uint32_t range) const;
  bool advance(Turn&);
  bool collect(Turn&);
  bool collect_second(Turn&);
  void exchange(const LocalResult&, bool contributes, Turn&);
  // What is averaged as exact values beside the parameters: the buffers of the layout, the
  // strategy's scalars, and a count of samples if the run stops by it.
  std::uint64_t extras(const Turn&) const;
  void note_left_out(Turn&);
  void record_counted(Turn&);
  void take_extras(const Outcome&, Turn&);
  void fail(const Error&, Turn&);

  // returning.cpp
  std::uint64_t length_of(std::uint32_t range, const Turn&) const;
  std::optional<Round> next_round(std::uint32_t range) const;
  bool stand_in_for_round(Turn&);
  bool end_stand_in(Turn&);
  bool begin_from_state(Turn&);
  void note_who_needs_state();
  void follow_returned(Turn&);
  bool sends_state(const Turn&) const;
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
  double weight_ = 1;                     // of this node in the round's means
  RankList counted_;                      // in the last mean that came, but for lost ones ...
  Round counted_in_ = 0;                  // ... of this round
  Time asked_{0};                         // since when this round's mean is awaited
  Time over_{0};                          // when the last round ended
  std::optional<Outcome> mean_, extras_;  // of this round, the one that came first
  Time gave_{0};
  std::vector<float> scalars_;  // the mean of the last that came
  // Live workers that have returned, with the epoch, until they are known to have the model.
  std::map<Rank, Epoch> returned_;
  bool preparing_state_ = false;  // computes what ready_to_send_state() asked for
  std::set<Rank> needs_state_;    // of them: wait for the state that the next round begins with
  // At a returned node: who is to send the state; whether it stands in for all ranges.
  Rank state_sender_ = 0;
  bool stands_in_all_ranges_ = true;
  StateTransfer state_transfer_;
};

}  // namespace longhaul::sync
