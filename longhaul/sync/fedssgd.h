#pragma once
// FedSSGD: synchronous SGD whose sites count by their samples. A name without a definition that we
// know of (FedGSync, OpenReview UGpu360ONV, compares with it): both readings are ours.
//   step: Chen et al., "Revisiting distributed synchronous SGD", 2016, with weights of sites
//   semi: everybody trains for the same time, as in Stripelis, Thompson, Ambite, "Semi-synchronous
//   federated learning for energy-efficient training and accelerated convergence in cross-silo
//   settings", ACM TIST 2022, section 4
#include "longhaul/core/registry.h"
#include "longhaul/sync/bsp.h"
#include "longhaul/sync/local_update.h"

namespace longhaul::sync {

struct FedSsgdConfig {
  std::string reading = "step";
  std::uint32_t steps = 10;
  std::uint32_t max_steps = 1000;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    LONGHAUL_FIELD(reading,
                   .doc =
                       "step: the mean gradient of every step; semi: the mean update of what each "
                       "worker has done in the time that the slowest needs for its steps",
                   .choices = {"step", "semi"});
    LONGHAUL_FIELD(steps, .doc = "semi: of the slowest in a round (H), and of all in the first",
                   .min = 1, .max = 1e6);
    LONGHAUL_FIELD(max_steps, .doc = "semi: most local steps in a round", .min = 1, .max = 1e6);
  }
};

struct FedSsgd {
  using Config = FedSsgdConfig;
  static SyncEntry entry();
};

// x <- opt(x, sum n_k g_k / sum n_k)
class FedSsgdByStep final : public Bsp {
 public:
  using Config = FedSsgdConfig;
  static SyncEntry entry() { return FedSsgd::entry(); }
  FedSsgdByStep(const Config&, SyncParts parts) : Bsp(entry(), std::move(parts)) {}

 private:
  double weight(const Computed&) const override;
};

// X <- X + outer(sum n_k (x_k - X) / sum n_k) after Delta = H max c_j, of the last round's step
// times c_j, which all learn from the exchange.
class FedSsgdByTime final : public Synchronous {
 public:
  using Config = FedSsgdConfig;
  static SyncEntry entry() { return FedSsgd::entry(); }
  static Status check(const Config&, const Place&);
  FedSsgdByTime(const Config& config, SyncParts parts, const Place& place)
      : Synchronous(entry(), std::move(parts)), config_(config), ranks_(place.size()) {}

  void on_computed(const Computed&, Turn&) override;
  void state(Archive&) override;

 private:
  void begin_run(Turn&) override;
  void begin_round(Turn&) override;
  void use_mean(std::span<float> mean, Turn&) override;
  void on_returned(Turn&) override { step_s_ = 0; }  // it is the sender's
  bool fits(std::size_t parameters) const override {
    return Synchronous::fits(parameters) && local_.fits(parameters);
  }
  // By rank: c_j, and 1; those without a share in the mean are 0. Their ratio is free of weights.
  std::size_t scalars() const override { return 2 * std::size_t(ranks_); }
  double slowest() const;

  const Config config_;
  const std::uint32_t ranks_;
  LocalUpdate local_;
  double step_s_ = 0;   // c of this worker, in the last round
  double delta_s_ = 0;  // Delta of the round; 0: not known
};

}  // namespace longhaul::sync
