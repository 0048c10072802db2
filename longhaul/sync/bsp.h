#pragma once
// Bulk synchronous parallel training: in every step all workers average their gradients, and each
// applies the mean with its own copy of the optimiser.
//   Valiant, "A bridging model for parallel computation", CACM 1990, section 3 (supersteps);
//   Chen et al., "Revisiting distributed synchronous SGD", 2016, algorithms 1 and 2 (no backups).
#include "longhaul/sync/optimizer_transfer.h"
#include "longhaul/sync/synchronous.h"

namespace longhaul::sync {

class Bsp : public Synchronous {
 public:
  static SyncEntry entry();
  struct Config {  // no settings
    template <class Self, class Visit>
    static void fields(Self&, Visit&&) {}
  };

  Bsp(const Config&, SyncParts parts) : Bsp(entry(), std::move(parts)) {}

  void on_step(const StepResult& result, Turn&) override { optimizer_.on_step(result); }
  void on_computed(const Computed&, Turn&) override;
  void state(Archive&) override;

 protected:
  Bsp(const SyncEntry& said, SyncParts parts) : Synchronous(said, std::move(parts)) {}
  // What a gradient counts in the mean.
  virtual double weight(const Computed& computed) const { return double(computed.samples); }

 private:
  void begin_round(Turn&) override;
  void use_mean(std::span<float> mean, Turn&) override;
  bool ready_to_send_state(Turn& turn) override { return optimizer_.ready(turn); }
  void on_returned(Turn&) override { optimizer_.on_returned(); }

  OptimizerTransfer optimizer_;
  bool applying_ = false;  // the optimiser is at the mean gradient, not the model at a batch
};

}  // namespace longhaul::sync
