#pragma once
#include "longhaul/core/machine.h"

namespace longhaul {

// A Strategy is the root machine of a node's training: it decides when to compute and exchange, and
// how to use the results. The same object runs in the simulator, over sockets and in a unit test. A
// node without a learner (a server) runs a strategy too; it never computes.
class Strategy : public Machine {
 public:
  // Called at each step boundary of a compute(). Parameters may be read, replaced or mixed.
  virtual void on_step(const StepResult&, Turn&) {}
  // Called at the last boundary of a compute(), right after its on_step.
  virtual void on_computed(const Computed&, Turn&) {}
  // Called with items of this node's own source; with a request of one of its users (nullptr: the
  // user wants no more), answered by Turn::reply; when a record of Turn::append is durable.
  virtual void on_arrived(std::vector<Item>, Turn&) {}
  virtual void on_requested(std::uint64_t client, const Bytes& request, Turn&) {
    (void)client, (void)request;
  }
  virtual void on_stored(std::uint64_t number, Turn&) { (void)number; }
  // Returns the rounds whose model this node holds completely: the unit of checkpoints and
  // progress.
  virtual Round rounds_done() const = 0;
  // Returns true if a node that was declared lost can return with a new incarnation.
  virtual bool lets_return() const { return false; }
  // Returns a sentence on how the run diverged, or "". Called after the end. Divergence is a common
  // result of all nodes (exit code 1), not a failure.
  virtual std::string diverged() const { return ""; }
  // Returns the nodes and data for which it waits; "" while it computes or after its end.
  virtual std::string waiting_for() const = 0;
};

}  // namespace longhaul
