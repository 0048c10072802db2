#pragma once
// The principal components of a few vectors: where each stands along them.
//   Pearson, "On lines and planes of closest fit to systems of points in space", 1901; from the
//   Gram matrix, since there are fewer vectors than numbers in one.
#include <vector>

namespace longhaul::sync::grouping {

using Point = std::vector<double>;

inline constexpr double kVariance = 0.9;  // that the components together hold, at least
inline constexpr std::size_t kMostComponents = 8;

// Rows of one length and of norm > 0 are brought to norm 1 and centred; of each its scores on the
// fewest components that hold kVariance of the variance, kMostComponents at most and 1 at least.
// The largest score in size of each component is positive.
std::vector<Point> component_scores(std::vector<Point> rows);

}  // namespace longhaul::sync::grouping
