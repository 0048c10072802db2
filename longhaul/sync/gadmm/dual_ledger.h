#pragma once
// The dual variables of one worker of GADMM: c_nm, which n holds for worker m, of every m that it
// has ever been a neighbour of. They are never sent in an iteration: both ends of an edge add the
// same numbers in the same order, so c_nm = -c_mn bit for bit.
//
// The published code keeps their sum alone. Kept apart (ours) they make a loss harmless: every
// survivor deletes what it holds for the lost worker, and the sum over all survivors is 0 again.
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "longhaul/base/archive.h"
#include "longhaul/base/check.h"
#include "longhaul/core/types.h"

namespace longhaul::sync::gadmm {

class DualLedger {
 public:
  struct Dual {
    std::uint64_t steps = 0;
    std::vector<double> values;  // empty in a phantom job
    void state(Archive& ar) { ar(steps, values); }
  };

  // c_nm <- c_nm + rho (own - theirs): the models of both ends, of one iteration.
  void step(Rank peer, double rho, std::span<const double> own, std::span<const double> theirs) {
    LH_CHECK(own.size() == theirs.size());
    Dual& dual = duals_[peer];
    dual.values.resize(own.size());
    for (std::size_t i = 0; i < own.size(); ++i) dual.values[i] += rho * (own[i] - theirs[i]);
    ++dual.steps;
  }

  // sum over m of c_nm, in the order of the ranks
  std::vector<double> sum(std::size_t size) const {
    std::vector<double> total(size);
    for (const auto& [peer, dual] : duals_)
      for (std::size_t i = 0; i < dual.values.size(); ++i) total[i] += dual.values[i];
    return total;
  }

  // Null: never a neighbour.
  const Dual* of(Rank peer) const {
    const auto found = duals_.find(peer);
    return found == duals_.end() ? nullptr : &found->second;
  }

  // Adopts `theirs`, the peer's dual for this worker, negated, if it has more steps: a model in
  // transit at a loss may have been used at one end only.
  void repair(Rank peer, const Dual& theirs) {
    const Dual* mine = of(peer);
    if (theirs.steps <= (mine ? mine->steps : 0)) return;
    Dual& dual = duals_[peer];
    dual = theirs;
    for (double& value : dual.values) value = -value;
  }

  void drop(Rank peer) { duals_.erase(peer); }
  void state(Archive& ar) { ar(duals_); }

 private:
  std::map<Rank, Dual> duals_;
};

}  // namespace longhaul::sync::gadmm
