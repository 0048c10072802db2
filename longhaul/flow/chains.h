#pragma once
// TreePacking that need but one connection at each port, either way: round one circle of all sites,
// to each root a chain of the others, and from it another.
#include <vector>

#include "longhaul/flow/capacities.h"
#include "longhaul/flow/forest.h"

namespace longhaul::flow {

struct Chains {
  std::vector<TwoTrees> trees;  // one pair for each root; without shares
  double latency = 0;           // of a piece on the longest way up and down, seconds
};

// Round the circle whose slowest hop is the quickest. `piece`: bytes, as rates count them. CHECKs
// that there are two sites.
Chains plan_chains(const Wan&, const Capacities&, double piece);

}  // namespace longhaul::flow
