#pragma once
// A Tap listens in on a node: to all that comes in and all that goes out, in order, whatever the
// host (Node::tap). It changes nothing.
#include "longhaul/core/action.h"
#include "longhaul/core/input.h"

namespace longhaul {

class Node;

class Tap {
 public:
  virtual ~Tap() = default;
  // Before the node takes it: the node is as the input finds it. `learner` is the node's, or
  // nullptr; it may be looked at if the input is Started or Stepped, or if node.computing() is
  // false.
  virtual void input(Time, const Input&, Node& node, Learner* learner) = 0;
  // Before the host gets it. Messages to oneself are the node's own affair. `idle` is the learner
  // as it stands, or nullptr while it computes; of a ComputeStep it is what the step begins with.
  virtual void action(const Action&, Learner* idle) = 0;
  // The input is dealt with. An Error: what Node::deliver answered.
  virtual void answered(const Status&) = 0;
};

}  // namespace longhaul
