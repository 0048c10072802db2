#pragma once
// A plan of trees that carries an all-reduce over a Wan within a few per cent of what trees can do
// at best (tree_packing.h, docs/bounds.md): a small set of explicit pairs of trees with the share of the
// vector that each carries. A pure function: who knows the same numbers has the same plan.
//
// Delays count: for a short vector it plans fewer, shallower trees (docs/overlay/forest.md).
#include <cstdint>
#include <vector>

#include "longhaul/flow/wan.h"

namespace longhaul::flow {

// Sums go up one tree to the root, and from there the total goes down another. Nodes are sites.
struct TwoTrees {
  std::uint32_t root = 0;
  std::vector<std::uint32_t> reduce_to;    // whom a site's sum goes to; the root: itself
  std::vector<std::uint32_t> spread_from;  // from whom a site has the total; the root: itself
  double share = 0;                        // of the vector; those of a plan add up to 1
};

struct ForestTask {
  double bytes = 0;  // of a vector, as rates count them: IP bytes
  double piece = 0;  // of those, what goes from site to site at a time: it waits for all of one
  // One circle of all sites will do, where it is nearly as quick: connections that share a port
  // get less of it together than one.
  bool circle = true;
  friend bool operator==(const ForestTask&, const ForestTask&) = default;
};

struct ForestPlan {
  std::vector<TwoTrees> trees;  // by descending share; of one site alone: one, without links
  double busy_s = 0;            // of the busiest link: its bytes over its rate; 0: none limits it
  double latency_s = 0;         // the longest way of a piece, up and down again
  // No plan of trees has less for its busiest link: what it is worth without a look at tree_packing.h,
  // which does not do as many sites. 0: nothing limits it.
  double floor_s = 0;
  double seconds() const { return busy_s + latency_s; }
};

// What follows a trace counts at its highest rate. CHECKs that there is a site.
ForestPlan plan_forest(const Wan&, const ForestTask&);

}  // namespace longhaul::flow
