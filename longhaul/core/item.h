#pragma once
// Items of growing data: what a source (a camera, a log, a generator) hands to the node beside it.
#include <vector>

#include "longhaul/core/types.h"

namespace longhaul {

class Archive;

// One object of a source's stream. Seqs of a source ascend; a seq that is left out is a gap.
struct Item {
  std::uint32_t source = 0;   // the rank of the node that its source feeds
  std::uint64_t seq = 0;      // from 1
  Time at{0};                 // when it was seen, in the source's own time
  std::vector<float> values;  // pixels, or a vector; "as it came"

  void state(auto& archive) { archive(source, seq, at, values); }
};

}  // namespace longhaul
