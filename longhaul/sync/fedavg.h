#pragma once
// Federated averaging: a share of the sites takes local steps from the common model, and the common
// model moves by the mean of their updates. With fraction = 1 and reset_optimizer = false it is
// local SGD.
//   McMahan et al., "Communication-efficient learning of deep networks from decentralized data",
//   AISTATS 2017, algorithm 1; in the form with updates and an outer optimiser of
//   Reddi et al., "Adaptive federated optimization", ICLR 2021, algorithm 1 (FedOpt).
#include "longhaul/sync/deadline.h"
#include "longhaul/sync/tunable.h"

namespace longhaul::sync {

class FedAvg : public RoundsWithDeadline, public Tunable {
 public:
  static SyncEntry entry();
  struct Config {
    std::uint32_t steps = 20;
    double epochs = 0;
    double fraction = 1;
    std::uint32_t min_sites = 1;
    std::string weights = "samples";
    double momentum = 0;
    bool reset_optimizer = true;
    double round_timeout_s = 0;
    std::string late = "fold";
    std::uint32_t min_clients = 1;

    static void fields(auto& self, auto&& visit) {
      LONGHAUL_KEY(steps, "local steps in a round (H)", .min = 1);
      LONGHAUL_KEY(epochs,
                   "passes over its own samples that a site makes in a round (E), so that large "
                   "sites take more steps; 0: steps steps at every site",
                   .min = 0, .max = 1e4);
      LONGHAUL_KEY(fraction, "share of the workers that compute in a round (C), drawn by the seed",
                   .min = 0, .max = 1, .positive = true);
      visit_min_sites(visit, self.min_sites);
      LONGHAUL_KEY(
          weights,
          "weight of an update: its samples, or 1; fednova, steps: the same two, divided by "
          "its steps; the mean is multiplied by the mean number of steps",
          .choices = {"samples", "equal", "fednova", "steps"});
      LONGHAUL_KEY(momentum,
                   "with weights fednova or steps and reset_optimizer: that of [optimizer], which "
                   "makes later steps of a round longer",
                   .min = 0, .max = 0.999);
      LONGHAUL_KEY(reset_optimizer, "start every round with a fresh local optimiser");
      LONGHAUL_KEY(round_timeout_s,
                   "a round continues without the updates of workers that are not done this long "
                   "after they began it; 0: it waits for every worker",
                   .min = 0, .max = 1e9, .unit = "s");
      visit_late(visit, self.late, self.min_clients);
    }
    bool depends_on_time() const { return round_timeout_s > 0; }
    std::optional<Time> round_timeout() const {
      return round_timeout_s > 0 ? std::optional(from_seconds(round_timeout_s)) : std::nullopt;
    }
  };

  FedAvg(const Config& config, SyncParts parts) : FedAvg(entry(), config, std::move(parts)) {}

  void on_computed(const Computed&, Turn&) override;
  void state(Archive&) override;
  // Tunable: the steps of the following rounds.
  void tune(double steps) override {
    steps_ = std::uint32_t(steps);
    if (config_.epochs > 0) epoch_steps_ = steps_;
  }
  bool needs_agreement() const override { return true; }
  double exchanges() const override { return double(rounds_done()); }

 protected:
  FedAvg(const SyncEntry& said, const Config& config, SyncParts parts)
      : RoundsWithDeadline(said, config, std::move(parts)), config_(config), steps_(config.steps) {}
  // Returns the work of a local step of the round; called while x_k = X.
  virtual Work local_step(Turn&) const { return LocalStep{}; }
  void begin_round(Turn&) override;
  void on_returned(Turn& turn) override {
    RoundsWithDeadline::on_returned(turn);
    epoch_steps_.reset();  // the sender's
  }

 private:
  StepNorm norm() const override {
    return {.weights = config_.weights, .momentum = config_.reset_optimizer ? config_.momentum : 0};
  }
  void take_steps(Turn&);

  const Config config_;
  std::uint32_t steps_;                       // steps of the next round
  std::optional<std::uint32_t> epoch_steps_;  // the same with epochs > 0, once known
  bool resetting_ = false;
  bool counting_ = false;  // a step on a copy is running, which counts the steps of an epoch
};

}  // namespace longhaul::sync
