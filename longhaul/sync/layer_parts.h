#pragma once
// The parts that a learner takes a step in (ForwardPart, BackwardPart): runs of the layout's
// entries, from the input to the output.
#include <cstdint>
#include <vector>

#include "longhaul/base/result.h"
#include "longhaul/core/layout.h"

namespace longhaul::sync {

struct LayerPart {
  std::uint32_t first = 0, end = 0;  // of the layout's entries
  Range values;                      // of the parameters
};

// A part begins at each fully connected layer, a phantom's at each layer.
std::vector<LayerPart> layer_parts(const Layout&, bool phantom);
// The same, neighbours together where there are more than `most` (at least 1).
std::vector<LayerPart> layer_parts(const Layout&, bool phantom, std::size_t most);

}  // namespace longhaul::sync
