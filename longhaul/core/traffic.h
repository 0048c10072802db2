#pragma once
// What an overlay plans to move in one exchange: a plain value, to be shown before a run and held
// against what a run has sent. Bytes are those of encoded vectors; what names and frames them, and
// small messages beside them, are left out (docs/costs.md).
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "longhaul/core/types.h"

namespace longhaul {

struct Traffic {
  struct Load {                // of an ordered pair of nodes, in bytes
    std::uint64_t reduce = 0;  // contributions and sums on their way together
    std::uint64_t spread = 0;  // of the mean, on its way out
  };
  // A part of the vector that goes one way: summed up towards a root, spread from it.
  struct Tree {
    Rank root = 0;
    double share = 0;                // of the vector's values
    std::uint32_t up = 0, down = 0;  // links on the longest way to the root, and from it
  };

  std::map<std::pair<Rank, Rank>, Load> loads;  // (from, to); who moves nothing is not in it
  std::vector<Tree> trees;                      // by descending share
};

}  // namespace longhaul
