#pragma once
// The significance filter: which accumulated updates are worth sending.
//   Hsieh et al., "Gaia", NSDI 2017; where a parameter is 0, every update of it is significant, as
//   in the released code.
#include <cmath>
#include <span>
#include <vector>

#include "longhaul/base/check.h"
#include "longhaul/sync/gaia/config.h"

namespace longhaul::sync::gaia {

struct Significance {
  double threshold = 0;  // T
  double absolute = 0;   // > 0: compared with the update itself, instead of T
  bool everything = false;

  bool holds(float update, float parameter) const {
    if (update == 0) return false;
    if (everything) return true;
    const double size = std::abs(double(update));
    if (absolute > 0) return size > absolute;
    return parameter == 0 || size > threshold * std::abs(double(parameter));
  }
};

// The indexes, ascending, of the updates that are significant. `updates` and `parameters`, the
// values after the local steps, are equally long and finite. Comparisons in double.
inline std::vector<std::uint32_t> significant(std::span<const float> updates,
                                              std::span<const float> parameters,
                                              const Significance& significance) {
  LH_CHECK(updates.size() == parameters.size());
  std::vector<std::uint32_t> indexes;
  for (std::size_t i = 0; i < updates.size(); ++i)
    if (significance.holds(updates[i], parameters[i])) indexes.push_back(std::uint32_t(i));
  return indexes;
}

}  // namespace longhaul::sync::gaia
