#pragma once
#include <algorithm>
#include <cfloat>

namespace longhaul::outer {

// Outer optimisers calculate in double and round each stored number once. What is too large for a
// float becomes the largest there is: finite updates stay finite.
inline float to_float(double value) {
  return float(std::clamp(value, -double(FLT_MAX), double(FLT_MAX)));
}

}  // namespace longhaul::outer
