#pragma once
// FedProx: federated averaging whose local steps are pulled back to the common model, and whose
// slow sites give what they have at a deadline.
//   Li et al., "Federated optimization in heterogeneous networks", MLSys 2020, algorithm 2 and
//   section 3 (the inexactness of a site's solution is how many steps it came to take).
#include "longhaul/sync/fedavg.h"

namespace longhaul::sync {

class FedProx final : public FedAvg {
 public:
  static SyncEntry entry();
  struct Config : FedAvg::Config {
    double mu = 0.01;
    std::optional<double> deadline_s = {};
    bool depends_on_time() const { return deadline_s || FedAvg::Config::depends_on_time(); }

    template <class Self, class Visit>
    static void fields(Self& self, Visit&& visit) {
      FedAvg::Config::fields(self, visit);
      LONGHAUL_FIELD(mu,
                     .doc =
                         "strength of the pull to the round's model: mu/2 |x - X|^2 is added to "
                         "the loss",
                     .min = 0, .max = 1e6);
      LONGHAUL_FIELD(deadline_s,
                     .doc =
                         "a worker that is not done so long after its round began gives the steps "
                         "that it has, one at least (absent: all of them)",
                     .max = 1e9, .unit = "s", .positive = true);
    }
  };

  FedProx(const Config& config, SyncParts parts)
      : FedAvg(entry(), config, std::move(parts)), mu_(config.mu), deadline_s_(config.deadline_s) {}

  void on_step(const StepResult&, Turn&) override;
  void on_timer(TimerId, Turn&) override;
  void state(Archive&) override;

 private:
  static constexpr TimerId kLastStep{1};
  void begin_round(Turn&) override;
  // LocalStep on f_k(x) + mu/2 |x - X|^2
  Work local_step(Turn&) const override;

  const double mu_;
  const std::optional<double> deadline_s_;
  bool late_ = false;  // the deadline has passed
};

}  // namespace longhaul::sync
