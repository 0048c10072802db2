#pragma once
// Elastic averaging in rounds: all workers and the centre pull each other at once.
//   Zhang, Choromanska, LeCun, "Deep learning with elastic averaging SGD", NIPS 2015, section 2,
//   equations (5) and (6); collective, so that every worker holds the centre and none serves it.
//
//   d_i = x_i - c of the same c; x_i <- x_i - alpha d_i; c <- c + beta mean(d_i), beta = n alpha
#include "longhaul/sync/easgd.h"
#include "longhaul/sync/synchronous.h"

namespace longhaul::sync {

class SynchronousEasgd final : public Synchronous {
 public:
  using Config = EasgdConfig;
  static SyncEntry entry() { return Easgd::entry(); }

  SynchronousEasgd(const Config& config, SyncParts parts)
      : Synchronous(entry(), std::move(parts)), config_(config) {}

  void on_computed(const Computed&, Turn&) override;
  void state(Archive&) override;

 private:
  void begin_run(Turn&) override;
  void begin_round(Turn&) override;
  void use_mean(std::span<float> mean, Turn&) override;
  void use_nothing(Turn&) override;
  bool close(Turn&) override;
  void end_with_centre(Turn&);

  const Config config_;
  std::vector<float> centre_;  // c, bit-equal at all workers; a phantom's is empty
};

}  // namespace longhaul::sync
