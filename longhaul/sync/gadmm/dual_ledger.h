#pragma once
// The dual variables of one worker of GADMM: c_nm, which n holds for worker m, of every m that it
// has ever been a neighbour of. They are never sent: both ends of an edge add the same numbers in
// the same order, so c_nm = -c_mn bit for bit.
//
// The published code keeps their sum alone. Kept apart (ours) they make a loss harmless: every
// survivor deletes what it holds for the lost worker, and the sum over all survivors is 0 again.
// A model in transit at a change of the members may have been used at one end only. So both ends
// report their number of steps, and the end with one more undoes its last step.
#include <algorithm>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "longhaul/base/check.h"
#include "longhaul/core/machine.h"

namespace longhaul::sync::gadmm {

class DualLedger final : public Machine {
 public:
  struct Steps {  // to each other worker of a new view
    LONGHAUL_MESSAGE(1, "steps");
    std::uint64_t steps = 0;
    LONGHAUL_FIELDS((steps, .doc = "steps of the sender's dual for the receiver", .max = 0x1p50))
  };
  using Messages = MessageList<Steps>;
  struct Dual {
    std::uint64_t steps = 0;
    std::vector<double> values, before;  // `before` the last step; both empty in a phantom job
    void state(Archive& ar) { ar(steps, values, before); }
  };

  // c_nm <- c_nm + rho (own - theirs): the models of both ends, of one iteration.
  void step(Rank peer, double rho, std::span<const double> own, std::span<const double> theirs) {
    LH_CHECK(own.size() == theirs.size());
    Dual& dual = duals_[peer];
    dual.values.resize(own.size());
    dual.before = dual.values;
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

  // Deletes the duals for workers outside of a new view, and sends Steps to these others,
  // ascending.
  void enter_view(const std::vector<Rank>& others, Turn& turn) {
    std::erase_if(duals_,
                  [&](const auto& one) { return !std::ranges::binary_search(others, one.first); });
    for (const Rank rank : others)
      turn.send(rank, Steps{of(rank) ? of(rank)->steps : 0}, {}, kControl);
  }

  Status on_message(Rank from, const Message& message, Turn& turn) override {
    return dispatch(Messages{}, message, [&](const Steps& theirs) -> Status {
      const auto found = duals_.find(from);
      if (message.epoch != turn.view().epoch || found == duals_.end()) return Ok{};
      Dual& dual = found->second;
      if (dual.steps > theirs.steps + 1) return malformed("fewer steps of a dual than were taken");
      if (dual.steps <= theirs.steps) return Ok{};
      dual.values = dual.before;
      --dual.steps;
      return Ok{};
    });
  }

  void state(Archive& ar) override { ar(duals_); }

 private:
  std::map<Rank, Dual> duals_;
};

}  // namespace longhaul::sync::gadmm
