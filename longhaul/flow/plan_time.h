#pragma once
// Estimates the time of a plan of trees when TCP shares the links. forest.cpp chooses between plans
// by it. A pure function.
#include <cstdint>

#include "longhaul/flow/capacities.h"
#include "longhaul/flow/forest.h"

namespace longhaul::flow {

struct PlanTime {
  double busy_s = 0;     // time of the busiest link: its bytes over its rate
  double fair_s = 0;     // time of the slowest pair, if all pairs of the plan always send
  double latency_s = 0;  // time of a piece, up and down the longest path
  // Time until all links have sent their bytes, with the paths before and behind them
  // (link_windows.h).
  double through_s = 0;
  double unfair_s() const;  // cost of fair sharing
  double seconds() const { return through_s + unfair_s(); }
};

// Returns the seconds of a piece over each ordered pair at these rates (pair_shares.h), by row; 0
// for pairs without a rate.
std::vector<double> piece_ways(const Wan&, const std::vector<double>& rates, double piece);

// Takes delays from the Wan, rates from the Capacities.
PlanTime time_of(const std::vector<TwoTrees>&, const Wan&, const Capacities&, const ForestTask&);

}  // namespace longhaul::flow
