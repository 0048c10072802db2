#pragma once
// Priority-based parameter propagation: gradients averaged in every step, as in bsp, but layer by
// layer. What is done of the backward pass leaves at once, layers near the input pass those near
// the output on every link, and the next forward pass begins with the first layer's mean, while
// deeper ones are still on their way.
//   Jayarajan et al., "Priority-based parameter propagation for distributed DNN training", MLSys
//   2019 (arXiv:1905.03960).
//
// Round k, parts p = 0 .. m-1 of the model from the input on, B_i the samples of worker i:
//   for p = 0 .. m-1:   wait for gbar_p of round k-1;  x_p <- opt_p(x_p, gbar_p);  forward of p
//   for p = m-1 .. 0:   backward of p;  g_p into the mean  gbar_p = sum B_i g_p,i / sum B_i
// The values are those of bsp. Of what waits for a link, part p of a round goes before part p + 1.
//
// The paper has a parameter server and slices of a layer; here means are formed by any overlay, and
// chunks are the slices. Parts and their order under losses are ours.
// A worker that comes back (p3_returning.cpp) stands in for the parts of the round that runs, and
// begins the next one with the senior worker's model and optimiser.
#include <memory>

#include "longhaul/core/registry.h"
#include "longhaul/sync/layer_parts.h"
#include "longhaul/sync/optimizer_transfer.h"
#include "longhaul/sync/state_transfer.h"

namespace longhaul::sync {

class P3 final : public Strategy {
 public:
  static SyncEntry entry();
  // Means of so many parts may be under way; an overlay keeps twice as many for peers that are
  // ahead.
  static constexpr std::size_t kMostParts = 32;

  struct Config {
    std::string order = "shallow_first";
    double forward_share = 1.0 / 3;
    std::vector<double> shares;

    template <class Self, class Visit>
    static void fields(Self& self, Visit&& visit) {
      LONGHAUL_FIELD(order,
                     .doc =
                         "which part goes first of those that wait for a link; shallow_first: "
                         "the one nearest to the input; fifo: the one that was done first",
                     .choices = {"shallow_first", "fifo"});
      LONGHAUL_FIELD(forward_share,
                     .doc = "simulate only: share of a step's time that the forward pass takes",
                     .min = 0, .max = 1);
      LONGHAUL_FIELD(shares,
                     .doc =
                         "simulate only: what the time of each part, from the input on, is of a "
                         "pass; empty: by parameters");
    }
  };
  P3(const Config&, SyncParts, const Place&);
  static Status check(const Config&, const Place&);

  void on_start(Turn&) override;
  void on_view(const View& before, Turn&) override;
  void on_step(const StepResult& result, Turn&) override;
  void on_computed(const Computed&, Turn&) override;
  void on_progress(Turn&) override;
  bool lets_return() const override { return true; }
  Round rounds_done() const override { return done_; }
  std::string waiting_for() const override;
  Explanation explain() const override;
  void state(Archive&) override;

  const std::vector<LayerPart>& parts() const { return parts_; }

 private:
  enum class Phase : std::uint8_t {
    unstarted,
    awaiting,  // the mean of part_ of the round before
    applying,  // it
    forward,
    deciding,  // the round before is complete: waits for a verdict
    backward,
    ended,
    failed,
    // of a worker that has come back
    finding_round,
    standing_in,        // takes part in a round without contributing
    awaiting_state,     // that the next round begins with
    setting_optimizer,  // to the sender's
  };
  bool advance(Turn&);
  bool decide(Turn&);
  bool take_mean(Turn&);
  bool take_buffers(Turn&);
  void applied(Turn&);
  void move_on(const StepResult&, Turn&);
  void go_forward(Turn&);
  void go_back(Turn&);
  void send_part(const StepResult&, Turn&);
  bool send_buffers(Turn&);  // false: it has failed
  // Of the overlay's vectors: the lower, the sooner it leaves.
  std::uint32_t range(std::size_t part) const;
  std::uint32_t buffers_range() const { return std::uint32_t(parts_.size()); }
  double share(std::size_t part) const { return shares_.at(part); }
  void fail(const Error&, Turn&);

  // p3_returning.cpp
  bool knows_model() const { return phase_ < Phase::finding_round; }
  std::map<std::uint32_t, std::uint64_t> lengths() const;  // of each range
  void note_returned(const Outcome&, Turn&);
  void note_who_needs_state();
  void send_state(bool last, Turn&);
  void archive_for_returned(Archive&, Turn&);
  bool stand_in(Turn&);
  bool end_stand_in(Turn&);
  bool begin_from_state(Turn&);

  const Config config_;
  const Place place_;
  const std::vector<LayerPart> parts_;
  const std::vector<double> shares_;  // of a pass, of each part
  const std::unique_ptr<Overlay> overlay_;
  StopRule stop_;
  StateTransfer state_transfer_;

  Phase phase_ = Phase::unstarted;
  Round first_ = 0;  // with whose gradient this worker has begun
  Round round_ = 0;  // whose gradient is computed
  Round done_ = 0;   // rounds whose model is complete
  std::uint32_t part_ = 0;
  StepResult step_;                // within one turn
  std::uint64_t samples_ = 0;      // used by all in the rounds done
  std::uint64_t own_samples_ = 0;  // of this round
  bool has_buffers_ = false;       // of the round before: in params()
  double loss_ = 0;
  double compute_s_ = 0, wait_s_ = 0;  // of this round
  Time asked_{0};                      // since when a mean or a verdict is awaited
  // Live workers that have come back, with the epoch, until they are known to have the model; those
  // that wait for the state that the next round begins with.
  std::map<Rank, Epoch> returned_;
  std::set<Rank> needs_state_;
  Epoch formed_ = 0;  // the newest in which a mean of the round before was formed
  OptimizerTransfer optimizer_;
  // At one that has come back: who is to send the state; whether it stands in for all parts.
  Rank state_sender_ = 0;
  bool stands_in_all_ = true;
};

}  // namespace longhaul::sync
