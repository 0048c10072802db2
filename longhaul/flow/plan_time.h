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
  // Until all links are through, each with its bytes and with the ways before and behind them
  // (link_windows.h).
  double through_s = 0;
  double unfair_s() const;  // what sharing fairly costs
  double seconds() const { return through_s + unfair_s(); }
};

// Seconds of a piece over each ordered pair at these rates (pair_shares.h), by row; 0 where there
// is no rate.
std::vector<double> piece_ways(const Wan&, const std::vector<double>& rates, double piece);

// Delays are those of the Wan, rates those of the Capacities.
PlanTime time_of(const std::vector<TwoTrees>&, const Wan&, const Capacities&, const ForestTask&);

}  // namespace longhaul::flow
