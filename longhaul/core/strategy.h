#pragma once
#include "longhaul/core/machine.h"

namespace longhaul {

// A Strategy is the root machine of a node's training: it decides when to compute, when to exchange
// and what to do with what came. The same object runs in the simulator, over sockets and in a unit
// test. A node without a learner (a server) runs a strategy too; it is never asked to compute.
class Strategy : public Machine {
 public:
  // A step boundary inside or at the end of a compute(); parameters may be read, replaced, mixed.
  virtual void on_step(const StepResult&, Turn&) {}
  // The last boundary of a compute(), right after its on_step.
  virtual void on_computed(const Computed&, Turn&) {}
  // Items of this node's own source; a request of one of its users (nullptr: the user wants no
  // more), who is answered by Turn::reply; records of Turn::append that are durable now.
  virtual void on_arrived(std::vector<Item>, Turn&) {}
  virtual void on_requested(std::uint64_t client, const Bytes& request, Turn&) {
    (void)client, (void)request;
  }
  virtual void on_stored(std::uint64_t number, Turn&) { (void)number; }
  // Rounds whose model this node holds completely; the unit of checkpoints and progress.
  virtual Round rounds_done() const = 0;
  // May a node that was declared lost come back with a new incarnation?
  virtual bool lets_return() const { return false; }
  // Asked after the end: how the run diverged, in a sentence; "": it did not. That is a result
  // (exit code 1), to which all nodes came together, not a failure.
  virtual std::string diverged() const { return ""; }
  // Whom and what it waits for; "" while it computes or after its end.
  virtual std::string waiting_for() const = 0;
};

}  // namespace longhaul
