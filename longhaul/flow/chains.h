#pragma once
// Trees along one circle through all sites, with one connection each way at each port: every root
// has a chain of the others towards it, and another away from it.
#include <vector>

#include "longhaul/flow/capacities.h"
#include "longhaul/flow/forest.h"

namespace longhaul::flow {

struct Chains {
  std::vector<TwoTrees> trees;  // one pair for each root; shares not set
  double latency = 0;           // seconds of a piece on the longest path up and down
};

// Along the circle with the fastest slowest hop. `piece`: bytes, as rates count them. CHECKs
// that there are two sites.
Chains plan_chains(const Wan&, const Capacities&, double piece);

}  // namespace longhaul::flow
