#include "longhaul/sync/gadmm/dual_ledger.h"

#include "longhaul/base/check.h"

namespace longhaul::sync::gadmm {

void DualLedger::step(Rank peer, double rho, std::span<const double> own,
                      std::span<const double> theirs) {
  LH_CHECK(own.size() == theirs.size());
  Dual& dual = duals_[peer];
  dual.values.resize(own.size());
  for (std::size_t i = 0; i < own.size(); ++i) dual.values[i] += rho * (own[i] - theirs[i]);
  ++dual.steps;
}

std::vector<double> DualLedger::sum(std::size_t size) const {
  std::vector<double> total(size);
  for (const auto& [peer, dual] : duals_)
    for (std::size_t i = 0; i < dual.values.size(); ++i) total[i] += dual.values[i];
  return total;
}

const DualLedger::Dual* DualLedger::of(Rank peer) const {
  const auto found = duals_.find(peer);
  return found == duals_.end() ? nullptr : &found->second;
}

void DualLedger::repair(Rank peer, const Dual& theirs) {
  const Dual* mine = of(peer);
  if (theirs.steps <= (mine ? mine->steps : 0)) return;
  Dual& dual = duals_[peer];
  dual = theirs;
  for (double& value : dual.values) value = -value;
}

}  // namespace longhaul::sync::gadmm
