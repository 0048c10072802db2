#pragma once
// The significance filter: which accumulated updates are worth sending.
//   Hsieh et al., "Gaia", NSDI 2017; where a parameter is 0, every update of it is significant, as
//   in the released code.
#include <span>
#include <vector>

#include "longhaul/sync/gaia/config.h"

namespace longhaul::sync::gaia {

struct Significance {
  double threshold = 0;  // T
  double absolute = 0;   // > 0: compared with the update itself, instead of T
  bool everything = false;

  bool holds(float update, float parameter) const;
};

// The indexes, ascending, of the updates that are significant. `updates` and `parameters`, the
// values after the local steps, are equally long and finite. Comparisons in double.
std::vector<std::uint32_t> significant(std::span<const float> updates,
                                       std::span<const float> parameters, const Significance&);

}  // namespace longhaul::sync::gaia
