#include "longhaul/sync/fedprox.h"

#include "longhaul/sync/entry.h"

namespace longhaul::sync {

SyncEntry FedProx::entry() {
  SyncEntry said = FedAvg::entry();  // a lost peer is what it is there
  said.name = "fedprox";
  said.summary = "FedAvg with steps pulled to the common model, and a deadline";
  said.costs[0].rounds = "every H steps (20), or a deadline";
  said.costs[0].waits_for = "all, or the deadline";
  return strategy_entry<FedProx>(std::move(said));
}

void FedProx::begin_round(Turn& turn) {
  late_ = false;
  if (deadline_s_) turn.set_timer(kDeadline, turn.now() + from_seconds(*deadline_s_));
  FedAvg::begin_round(turn);
}

Work FedProx::local_step(Turn& turn) const {
  const auto x = turn.params();
  return ProximalStep{mu_, std::make_shared<const std::vector<float>>(x.begin(), x.end())};
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
