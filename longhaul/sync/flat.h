#pragma once
// The two parts of a node's flat vector: its parameters, then its buffers. A phantom job has no
// numbers, and both are empty.
#include <algorithm>
#include <cmath>

#include "longhaul/core/turn.h"

namespace longhaul::sync {

inline std::size_t parameter_count(const Place& place) {
  return place.phantom ? 0 : place.layout->parameters().length;
}
inline std::span<float> parameters(Turn& turn) {
  return turn.params().first(parameter_count(turn.place()));
}
inline std::span<float> buffers(Turn& turn) {
  return turn.params().subspan(parameter_count(turn.place()));
}

// Of vectors in fp64; all_finite() of core/codec.h is for fp32.
inline bool are_finite(std::span<const double> values) {
  return std::ranges::all_of(values, [](double v) { return std::isfinite(v); });
}

}  // namespace longhaul::sync
