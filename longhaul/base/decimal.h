#pragma once
// Whole numbers of a product or quotient of decimals, of which doubles are near but not equal:
// 0.28 * 25 is a little more than 7, (1 - 0.55) * 100 a little less than 45. What is within 1e-12
// of its size from a whole number, or from a half, counts as that one. For numbers from 0 up.
#include <cmath>

namespace longhaul {

inline constexpr double kDecimalNoise = 1e-12;

inline double whole_up(double x) { return std::ceil(x * (1 - kDecimalNoise)); }
inline double whole_down(double x) { return std::floor(x * (1 + kDecimalNoise)); }
inline double whole_nearest(double x) { return std::floor(x * (1 + kDecimalNoise) + 0.5); }

}  // namespace longhaul
