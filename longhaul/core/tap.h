#pragma once
// A Tap observes a node with any host (Node::tap): all inputs and all actions, in order. It changes
// nothing.
#include "longhaul/core/action.h"
#include "longhaul/core/input.h"

namespace longhaul {

class Node;

class Tap {
 public:
  virtual ~Tap() = default;
  // Called before the node takes the input; the node is still unchanged. `learner`: the node's
  // learner, or nullptr. It may be read only if the input is Started or Stepped, or if
  // node.computing() is false.
  virtual void input(Time, const Input&, Node& node, Learner* learner) = 0;
  // Called before the host gets the action. Messages of the node to itself are left out. `idle`:
  // the learner, or nullptr while it computes; for a ComputeStep, the learner before the step.
  virtual void action(const Action&, Learner* idle) = 0;
  // Called after the input with the result of Node::deliver.
  virtual void answered(const Status&) = 0;
};

}  // namespace longhaul
