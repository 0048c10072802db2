#include "longhaul/sync/fedprox.h"

#include "longhaul/sync/entry.h"

namespace longhaul::sync {

SyncEntry FedProx::entry() {
  SyncEntry said = FedAvg::entry();  // a lost peer is what it is there
  said.name = "fedprox";
  said.summary = "FedAvg with steps pulled to the common model, and a deadline";
  said.costs[0].rounds = "every H steps (20), or a deadline";
  said.costs[0].waits_for = "all, or the deadline";
  said.adapt = adapt_by_time<FedProx::Config>;
  return strategy_entry<FedProx>(std::move(said));
}

void FedProx::begin_round(Turn& turn) {
  if (!are_steps_running()) {
    late_ = false;
    if (deadline_s_) turn.set_timer(*this, kLastStep, turn.now() + from_seconds(*deadline_s_));
  }
  FedAvg::begin_round(turn);
}

Work FedProx::local_step(Turn& turn) const {
  const auto x = turn.params();
  return ProximalStep{mu_, std::make_shared<const std::vector<float>>(x.begin(), x.end())};
}

void FedProx::on_timer(TimerId id, Turn& turn) {
  if (id == kLastStep) late_ = true;
  FedAvg::on_timer(id, turn);
}

// The steps taken so far are what is given.
void FedProx::on_step(const StepResult&, Turn& turn) {
  if (late_) turn.stop_computing();
}

void FedProx::state(Archive& ar) {
  FedAvg::state(ar);
  ar(late_);
}

}  // namespace longhaul::sync
