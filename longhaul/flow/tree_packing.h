#pragma once
// The best plan that splits a vector among spanning trees: a linear programme of packing trees
// fractionally into a Wan's pairs, sites and shared links (docs/bounds.md). For broadcast no plan
// at all is quicker, so it is the exact bound; for all-reduce it is a plan's time, above the bound.
// Delays are left out.
#include <optional>
#include <vector>

#include "longhaul/flow/bound.h"

namespace longhaul::flow {

struct TreePacking {
  double seconds = 0;  // 0: nothing limits it
  // The rest is empty then. Bytes a second on every ordered pair, by row, while vectors are summed
  // up towards roots and spread from them; and the share of the vector that each site is root of.
  std::vector<double> reduce, spread;
  std::vector<double> share;
};

// The programme grows with the square of the sites.
inline constexpr std::size_t kMaxSitesForTrees = 64;

// Nothing for more sites than that, or if the programme was not solved to one part in a million.
std::optional<TreePacking> pack_trees(const Wan&, const Task&);

}  // namespace longhaul::flow
