#pragma once
// OptimizerTransfer hands the local optimiser's state (momentum, moments, steps of the schedule) to
// a node that has returned, within the state of a strategy whose optimisers are equal at all nodes:
// the sender's is read when a state is due, the receiver's is set before its first round.
#include <vector>

#include "longhaul/core/turn.h"

namespace longhaul::sync {

class OptimizerTransfer {
 public:
  // At the sender, from ready_to_send_state(): has it been read? Else it is asked for.
  bool ready(Turn& turn) {
    if (read_) return true;
    if (!std::exchange(computing_, true)) turn.compute(OptimizerState{.set = {}, .whole = true});
    return false;
  }
  // At the receiver, as a round begins: is it being set first? False: there is nothing to set.
  bool set(Turn& turn) {
    if (!std::exchange(returned_, false)) return false;
    if (state_.empty()) return false;
    computing_ = true;
    turn.compute(OptimizerState{.set = std::move(state_), .whole = true});
    state_.clear();
    return true;
  }
  bool is_computing() const { return computing_; }
  // From Synchronous::on_returned().
  void on_returned() {
    returned_ = true;
    computing_ = false;
  }
  // The state has been sent, if it was asked for: a round begins.
  void forget() {
    state_.clear();
    read_ = false;
  }
  // From on_step(): the answer.
  void on_step(const StepResult& result) {
    if (computing_) state_ = result.outputs;
  }
  // From on_computed(): was it this that was computed? It has been read, or set.
  bool on_computed() {
    if (!std::exchange(computing_, false)) return false;
    read_ = true;
    return true;
  }
  void state(Archive& ar) { ar(state_, read_, computing_, returned_); }

 private:
  std::vector<float> state_;
  bool read_ = false, computing_ = false, returned_ = false;
};

}  // namespace longhaul::sync
