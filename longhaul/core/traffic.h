#pragma once
// Traffic that an overlay plans for one exchange: a plain value for display before a run and
// comparison with the sent traffic. Bytes are those of encoded vectors, without names, frames and
// small messages (docs/costs.md).
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "longhaul/core/types.h"

namespace longhaul {

struct Traffic {
  struct Load {                // bytes of an ordered pair of nodes
    std::uint64_t reduce = 0;  // contributions and sums, towards the root
    std::uint64_t spread = 0;  // mean, from the root
  };
  // A part of the vector with one route: summed up towards a root, spread from it.
  struct Tree {
    Rank root = 0;
    double share = 0;                // share of the vector's values
    std::uint32_t up = 0, down = 0;  // links on the longest path to the root, and from it
  };

  std::map<std::pair<Rank, Rank>, Load> loads;  // (from, to); only pairs with traffic
  std::vector<Tree> trees;                      // by descending share
};

}  // namespace longhaul
