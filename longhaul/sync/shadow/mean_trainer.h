#pragma once
// MeanTrainer is ShadowSync with a collective algorithm. All trainers agree on the mean of their
// parameters (MA), or filter it with momentum (BMUF), while training continues.
//   Zheng et al., "ShadowSync: performing synchronization in the background for highly scalable
//   distributed training", arXiv 2003.03477. The shadow thread is the round of the base class here.
//
// A round, with y the parameters at the step boundary at which it begins:
//   y - m -> agreed mean -> m, and w_glob with BMUF (global_model.h)
//   at the first boundary that has the mean: w <- w + alpha (target - y)   (write_back.h)
// The next round begins at that boundary. Between its two boundaries a round does not interrupt
// training, and every step boundary requests the next step in the same turn.
//
// The foreground is the baseline: `steps` steps, then the round, during which no trainer computes.
#include <algorithm>

#include "longhaul/sync/flat.h"
#include "longhaul/sync/shadow/config.h"
#include "longhaul/sync/shadow/lanes.h"
#include "longhaul/sync/shadowsync.h"

namespace longhaul::sync::shadow {

class MeanTrainer final : public Synchronous {
  static constexpr double kAlpha = 0.5;
  static constexpr TimerId kNextRound{0}, kTrainerSlot{1};

 public:
  using Config = ShadowConfig;
  static SyncEntry entry() { return ShadowSync::entry(); }

  static Status check(const Config& config, const Place& place) {
    if (config.rule() == WriteBack::interpolate && config.alpha == 1.0)
      return invalid(
          "[sync] alpha = 1 with write_back = \"interpolate\" replaces all that a trainer learns "
          "during a round by the mean: choose a smaller alpha or write_back = \"delta\"");
    if (config.lanes > 1 && config.is_foreground())
      return invalid("[sync] lanes: expected 1 with mode = \"foreground\" and algorithm = \"" +
                     config.algorithm +
                     "\", whose trainers stop all at once; give algorithm = \"easgd\"");
    return check_min_sites(config.min_sites, place);
  }

  MeanTrainer(const Config& config, SyncParts parts)
      : Synchronous(entry(), std::move(parts), config.min_sites),
        config_(config),
        global_(config.filter()),
        pace_(config.is_foreground() ? 0 : config.max_gap, config.epochs),
        lanes_(config.lanes) {}

  void on_step(const StepResult& result, Turn& turn) override {
    if (!lanes_.is_step()) return;
    lanes_.stepped(result);
    pace_.stepped(result);
    if (!pace_.may_step()) turn.stop_computing();
  }

  void on_computed(const Computed&, Turn& turn) override {
    if (!lanes_.computed(turn)) return;
    computing_ = false;
    if (config_.is_foreground()) return snapshot(turn);
    try_snapshot(turn);
  }

  void on_timer(TimerId id, Turn& turn) override {
    if (id == kTrainerSlot) lanes_.slot_passed();
    try_snapshot(turn);
    on_progress(turn);
  }

  void state(Archive& ar) override {
    Synchronous::state(ar);
    ar(global_, pace_, lanes_, y_, own_buffers_, buffers_, began_, paused_, computing_, closing_,
       over_);
  }

  std::string waiting_for() const override {
    if (computing_ || (working() && pace_.may_step())) return "";
    return Synchronous::waiting_for();
  }

 private:
  void begin_run(Turn& turn) override {
    global_.begin(parameters(turn));
    assign(buffers_, buffers(turn));
  }

  void begin_round(Turn& turn) override {
    if (!config_.is_foreground()) return try_snapshot(turn);
    if (!pace_.may_step()) return snapshot(turn);
    computing_ = true;
    lanes_.start(0, turn);
    lanes_.compute(config_.steps, kTrainerSlot, *this, turn);
  }

  // Returns true at a boundary. It must be later than that of the snapshot, unless the trainer
  // computes no more.
  bool takes_mean(Turn&) const override {
    return config_.is_foreground() || (!computing_ && (pace_.steps() > 0 || !pace_.may_step()));
  }

  void mean_came(Turn& turn) override { assign(own_buffers_, buffers(turn)); }

  void use_mean(std::span<float> zbar, Turn& turn) override {
    const double alpha = config_.alpha.value_or(kAlpha);
    if (is_catching_up()) assign(y_, parameters(turn));
    if (!turn.place().phantom) global_.take(zbar, contributors());
    write_back(parameters(turn), global_.target(), y_, alpha, config_.rule());
    // Running statistics move by the same share. A mean of two values keeps variances positive.
    const auto b = buffers(turn);
    buffers_.assign(b.begin(), b.end());
    for (std::size_t i = 0; i < b.size(); ++i)
      b[i] = float((1 - alpha) * double(own_buffers_[i]) + alpha * double(b[i]));
    over_ = scalars() > 0 && !turn.place().phantom && mean_scalars()[0] == 1;
    end_with_model(turn);
  }

  // Called if all contributors are lost, or if all trainers are done in a phantom job.
  void use_nothing(Turn& turn) override {
    over_ = turn.place().phantom && config_.epochs > 0;
    end_with_model(turn);
  }

  bool is_over() const override { return over_; }
  // Sets the model of the last round. Steps since its snapshot are not in it.
  bool close(Turn& turn) override {
    closing_ = true;
    if (computing_) {
      turn.stop_computing();
      return false;
    }
    const auto x = turn.params();
    std::ranges::copy(buffers_, std::ranges::copy(global_.model(), x.begin()).out);
    return true;
  }

  // Starts the next step in the turn in which the last one ends.
  void on_idle(Turn& turn) override {
    if (config_.is_foreground() || computing_ || closing_) return;
    try_snapshot(turn);
    if (!pace_.may_step()) {
      if (!paused_) paused_ = turn.now();
      return;
    }
    if (paused_) turn.record("paused_s", round(), seconds(turn.now() - *paused_));
    paused_.reset();
    for (std::uint32_t lane = 0; lane < lanes_.count(); ++lane)
      if (!lanes_.runs(lane)) lanes_.start(lane, turn);
    computing_ = lanes_.compute(1, kTrainerSlot, *this, turn);
  }

  void waited(Wait what, Time took, Turn& turn) override {
    if (config_.is_foreground()) return Synchronous::waited(what, took, turn);
    if (what == Wait::exchange) turn.record("sync_s", round(), seconds(took));
  }

  std::size_t scalars() const override { return config_.epochs > 0 ? 1 : 0; }
  bool counts_samples() const override { return false; }  // mixes in the background
  bool fits(std::size_t parameters) const override {
    return Synchronous::fits(parameters) && global_.fits(parameters);
  }

  // Called when this trainer has the senior worker's state. Resets the values that belong to one
  // trainer, and starts with the common model.
  void on_returned(Turn& turn) override {
    pace_.begin_anew();
    y_ = {};
    lanes_.clear();
    began_.reset();
    paused_.reset();
    computing_ = false;
    std::ranges::copy(buffers_, std::ranges::copy(global_.model(), turn.params().begin()).out);
  }

  // Starts a round at a boundary if no round has seen the last step, or if the trainer takes no
  // more.
  void try_snapshot(Turn& turn) {
    if (!working() || computing_ || (pace_.steps() == 0 && pace_.may_step())) return;
    const Time due = began_.value_or(Time::min() / 2) + from_seconds(config_.min_interval_s);
    if (turn.now() >= due) return snapshot(turn);
    if (!pace_.may_step()) turn.set_timer(*this, kNextRound, due);
  }

  // Sets y to w, and contributes y - m and the vote that this trainer is done.
  void snapshot(Turn& turn) {
    began_ = turn.now();
    assign(y_, parameters(turn));
    const Computed computed = pace_.snapshot();
    // Phantoms have no vote: a trainer that is done makes no contribution.
    if (turn.place().phantom && pace_.is_done()) return stand_by(turn);
    std::vector<float> vote(scalars(), pace_.is_done() ? 1.0f : 0.0f);
    const std::vector<float> z = global_.difference(y_);
    contribute({.values = z,
                .buffers = buffers(turn),
                .weight = 1,
                .loss = computed.loss,
                .samples = computed.samples,
                .scalars = std::move(vote)},
               turn);
  }

  void end_with_model(Turn& turn) {
    y_ = {};
    own_buffers_ = {};
    if (!config_.is_foreground()) turn.record("gap", round(), double(pace_.gap()));
    pace_.completed();
    std::vector<float> model(global_.model().begin(), global_.model().end());
    model.insert(model.end(), buffers_.begin(), buffers_.end());
    end_round(model, turn);
  }

  const Config config_;
  GlobalModel global_;
  Pace pace_;
  Lanes lanes_;
  std::vector<float> y_;                      // w at the snapshot, until it is written back
  std::vector<float> own_buffers_, buffers_;  // buffers before the mean; buffers of the last mean
  std::optional<Time> began_;                 // start of the last round
  std::optional<Time> paused_;                // start of a pause without computation
  bool computing_ = false;
  bool closing_ = false;
  bool over_ = false;  // all trainers are done with their data
};

}  // namespace longhaul::sync::shadow
