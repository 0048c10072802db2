#pragma once
// A plan of trees for an all-reduce over a Wan, within a few per cent of the best tree plan
// (tree_packing.h, docs/bounds.md). The plan is a small set of explicit pairs of trees, with the
// share of the vector that each carries. A pure function: equal inputs give equal plans.
//
// Delays count: for a short vector the plan has fewer, shallower trees (docs/overlay/forest.md).
#include <cstdint>
#include <vector>

#include "longhaul/flow/wan.h"

namespace longhaul::flow {

// A pair of trees: sums go up one to the root, and the total goes down the other. Nodes are sites.
struct TwoTrees {
  std::uint32_t root = 0;
  std::vector<std::uint32_t> reduce_to;    // the site that receives a site's sum; the root: itself
  std::vector<std::uint32_t> spread_from;  // the site that sends it the total; the root: itself
  double share = 0;                        // share of the vector; those of a plan add up to 1
};

struct ForestTask {
  double bytes = 0;  // length of a vector in IP bytes, as rates count them
  double piece = 0;  // bytes forwarded at a time: a site forwards whole pieces
  // Prefer one circle of all sites where it is nearly as fast: several connections that share a
  // port get less of it together than one.
  bool circle = true;
  friend bool operator==(const ForestTask&, const ForestTask&) = default;
};

struct ForestPlan {
  std::vector<TwoTrees> trees;  // by descending share; for one site alone: one, without links
  double busy_s = 0;     // time of the busiest link: its bytes over its rate; 0: none limits it
  double latency_s = 0;  // the longest path of a piece, up and down
  // A lower bound of busy_s for all plans of trees, also where tree_packing.h has too many sites.
  // 0: nothing limits it.
  double floor_s = 0;
  double seconds() const { return busy_s + latency_s; }
};

// Returns a plan. A rate that follows a trace counts at its highest. CHECKs that there is a site.
ForestPlan plan_forest(const Wan&, const ForestTask&);

}  // namespace longhaul::flow
