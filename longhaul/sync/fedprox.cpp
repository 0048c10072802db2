// FedProx: federated averaging whose local steps are pulled to the common model. At a deadline,
// slow sites contribute the steps that they have done.
//   Li et al., "Federated optimization in heterogeneous networks", MLSys 2020, algorithm 2 and
//   section 3 (the inexactness of a site's solution is the number of steps that it took).
#include "longhaul/sync/entry.h"
#include "longhaul/sync/fedavg.h"

namespace longhaul::sync {
namespace {

class FedProx final : public FedAvg {
 public:
  static SyncEntry entry() {
    SyncEntry said = FedAvg::entry();  // losses are handled in the same way
    said.name = "fedprox";
    said.summary = "FedAvg with steps pulled to the common model, and a deadline";
    said.costs[0].rounds = "every H steps (20), or a deadline";
    said.costs[0].waits_for = "all, or the deadline";
    said.adapt = adapt_by_time<FedProx::Config>;
    return strategy_entry<FedProx>(std::move(said));
  }

  struct Config : FedAvg::Config {
    double mu = 0.01;
    std::optional<double> deadline_s = {};
    bool depends_on_time() const { return deadline_s || FedAvg::Config::depends_on_time(); }

    static void fields(auto& self, auto&& visit) {
      FedAvg::Config::fields(self, visit);
      LONGHAUL_KEY(mu,
                   "strength of the pull to the round's model: mu/2 |x - X|^2 is added to the loss",
                   .min = 0, .max = 1e6);
      LONGHAUL_KEY(
          deadline_s,
          "time after the start of a round at which a worker contributes the steps that it "
          "has done, at least one (absent: all of them)",
          .max = 1e9, .unit = "s", .positive = true);
    }
  };

  FedProx(const Config& config, SyncParts parts)
      : FedAvg(entry(), config, std::move(parts)), mu_(config.mu), deadline_s_(config.deadline_s) {}

  // Stops at the deadline: the steps taken so far are the contribution.
  void on_step(const StepResult&, Turn& turn) override {
    if (late_) turn.stop_computing();
  }

  void on_timer(TimerId id, Turn& turn) override {
    if (id == kLastStep) late_ = true;
    FedAvg::on_timer(id, turn);
  }

  void state(Archive& ar) override {
    FedAvg::state(ar);
    ar(late_);
  }

 private:
  static constexpr TimerId kLastStep{1};
  void begin_round(Turn& turn) override {
    if (!are_steps_running()) {
      late_ = false;
      if (deadline_s_) turn.set_timer(*this, kLastStep, turn.now() + from_seconds(*deadline_s_));
    }
    FedAvg::begin_round(turn);
  }

  // Returns a LocalStep on f_k(x) + mu/2 |x - X|^2.
  Work local_step(Turn& turn) const override {
    const auto x = turn.params();
    return ProximalStep{mu_, std::make_shared<const std::vector<float>>(x.begin(), x.end())};
  }

  const double mu_;
  const std::optional<double> deadline_s_;
  bool late_ = false;  // the deadline has passed
};

}  // namespace

SyncEntry fedprox_entry() { return FedProx::entry(); }

}  // namespace longhaul::sync
