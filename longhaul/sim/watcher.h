#pragma once
// Watchers look at a World from outside: hash its trace, print it, check what must hold. They
// change nothing.
#include "longhaul/core/action.h"
#include "longhaul/core/node.h"
#include "longhaul/sim/network.h"

namespace longhaul::sim {

class World;

class Watcher {
 public:
  virtual ~Watcher() = default;
  // What a node did, before the world carries it out.
  virtual void acted(Time, Rank, const Action&) {}
  // What is about to be handed to a node.
  virtual void delivering(Time, const Packet&) {}
  virtual void crashed(Time, Rank) {}
  virtual void restarted(Time, Rank) {}
  // After every input to `rank`. An Error ends the run: what must hold does not.
  virtual Status after(const World&, Rank) { return Ok{}; }
  // Saved and loaded with the world.
  virtual void state(Archive&) {}
};

}  // namespace longhaul::sim
