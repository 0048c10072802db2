#pragma once
// MeanTrainer is ShadowSync with a collective algorithm: all trainers agree on the mean of their
// parameters (MA), or filter it with momentum (BMUF), while they go on training.
//   Zheng et al., "ShadowSync: performing synchronization in the background for highly scalable
//   distributed training", arXiv 2003.03477. The shadow thread is the round of the base class here.
//
// A round, with y the parameters at the step boundary at which it begins:
//   y - m -> agreed mean -> m, and w_glob with BMUF (global_model.h)
//   at the first boundary that has the mean: w <- w + alpha (target - y)   (write_back.h)
// The next round begins at that boundary. Between its two boundaries a round takes nothing from the
// training, and every step boundary asks for the next step in the same turn.
//
// In the foreground, the baseline: `steps` steps, then the round; nobody computes meanwhile.
#include "longhaul/sync/shadow/config.h"
#include "longhaul/sync/shadow/lanes.h"
#include "longhaul/sync/shadow/pace.h"

namespace longhaul::sync::shadow {

class MeanTrainer final : public Synchronous {
 public:
  using Config = ShadowConfig;
  static SyncEntry entry();
  static Status check(const Config&, const Place&);
  MeanTrainer(const Config&, SyncParts);

  void on_step(const StepResult&, Turn&) override;
  void on_computed(const Computed&, Turn&) override;
  void on_timer(TimerId, Turn&) override;
  void state(Archive&) override;
  std::string waiting_for() const override;

 private:
  void begin_run(Turn&) override;
  void begin_round(Turn&) override;
  bool takes_mean(Turn&) const override;
  void mean_came(Turn&) override;
  void use_mean(std::span<float> mean, Turn&) override;
  void use_nothing(Turn&) override;
  bool is_over() const override { return over_; }
  bool close(Turn&) override;
  void on_idle(Turn&) override;
  void waited(Wait, Time took, Turn&) override;
  std::size_t scalars() const override { return config_.epochs > 0 ? 1 : 0; }
  bool counts_samples() const override { return false; }  // it mixes in the background
  bool fits(std::size_t parameters) const override;
  void on_returned(Turn&) override;

  void try_snapshot(Turn&);
  void snapshot(Turn&);
  void end_with_model(Turn&);

  const Config config_;
  GlobalModel global_;
  Pace pace_;
  Lanes lanes_;
  std::vector<float> y_;                      // w at the snapshot, until it is written back
  std::vector<float> own_buffers_, buffers_;  // before the mean; of the last mean
  std::optional<Time> began_;                 // the last round
  std::optional<Time> paused_;                // since when the trainer computes nothing
  bool computing_ = false;
  bool closing_ = false;
  bool over_ = false;  // all are done with their data
};

}  // namespace longhaul::sync::shadow
