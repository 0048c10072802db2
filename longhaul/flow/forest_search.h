#pragma once
// The search for trees that fill a network: a linear programme over pairs of trees, grown by column
// generation. forest.cpp says for which networks and limits it searches. A pure function.
#include "longhaul/flow/forest.h"

namespace longhaul::flow {

struct SearchLimits {
  double longest = kUnlimited;  // seconds: the most latency of a tree, but for stars
  // Trees that may be sought, times the cube of the sites, which is what one costs.
  double work = kUnlimited;
};

// The plan with the least busy_s + latency_s that it finds. At least two sites.
ForestPlan search_forest(const Wan&, const ForestTask&, const SearchLimits& = {});

}  // namespace longhaul::flow
