#pragma once
// How long a plan of trees takes when TCP shares the links: the estimate by which forest.cpp
// chooses between plans. A pure function.
#include <cstdint>

#include "longhaul/flow/capacities.h"
#include "longhaul/flow/forest.h"

namespace longhaul::flow {

struct PlanTime {
  double busy_s = 0;     // of the busiest link: its bytes over its rate
  double fair_s = 0;     // of the pair that takes longest, if all pairs of the plan always send
  double latency_s = 0;  // of a piece, up and down the longest path
  double seconds() const;
};

// Delays are those of the Wan, rates those of the Capacities.
PlanTime time_of(const std::vector<TwoTrees>&, const Wan&, const Capacities&, const ForestTask&);

}  // namespace longhaul::flow
