#pragma once
// Watchers observe a World without changing it: hash its trace, print it, check invariants.
#include "longhaul/core/action.h"
#include "longhaul/core/node.h"
#include "longhaul/sim/network.h"

namespace longhaul::sim {

class World;

class Watcher {
 public:
  virtual ~Watcher() = default;
  // An action of a node, before the world carries it out.
  virtual void acted(Time, Rank, const Action&) {}
  // A packet, before it is delivered to its node.
  virtual void delivering(Time, const Packet&) {}
  virtual void crashed(Time, Rank) {}
  virtual void restarted(Time, Rank) {}
  // After every input to `rank`. Error: an invariant is broken; ends the run.
  virtual Status after(const World&, Rank) { return Ok{}; }
  // Saved and loaded with the world.
  virtual void state(Archive&) {}
};

}  // namespace longhaul::sim
