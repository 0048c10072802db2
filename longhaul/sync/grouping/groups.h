#pragma once
// Groups of workers with similar data, from the sketches of their gradients: k-means of a few
// points in the space of their principal components.
//   Pearson, "On lines and planes of closest fit to systems of points in space", 1901; Lloyd,
//   "Least squares quantization in PCM", 1982; starts: Arthur, Vassilvitskii, "k-means++", SODA
//   2007; the number of groups: Rousseeuw, "Silhouettes", 1987.
#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "longhaul/base/decimal.h"
#include "longhaul/core/types.h"

namespace longhaul::sync::grouping {

using Point = std::vector<double>;

inline constexpr double kVariance = 0.9;  // minimum share of the variance in the components
inline constexpr std::size_t kMostComponents = 8;

// Normalises the rows to norm 1 and centres them. They must have one length and norm > 0. Returns
// each row's scores on the fewest components that hold kVariance of the variance, 1 to
// kMostComponents. In each component the score of the largest magnitude is positive.
std::vector<Point> component_scores(std::vector<Point> rows);

using Labels = std::vector<std::uint32_t>;  // cluster of each point, from 0

inline constexpr std::uint32_t kRestarts = 20, kSteps = 100, kMostGroups = 8;
inline constexpr double kLeastSilhouette = 0.25;

// Returns the result of least inertia of kRestarts starts; if equal, the first. 1 <= k <=
// points.size(). A cluster can be empty if points are equal.
Labels kmeans(const std::vector<Point>&, std::uint32_t k, std::uint64_t seed, std::uint64_t round);

// Returns the mean over the points of (b - a) / max(a, b). a is the mean distance to the others of
// the point's cluster, b that to the nearest other cluster. A point alone in its cluster counts as
// 0.
double silhouette(const std::vector<Point>&, const Labels&);

// Forms `k` clusters. If k is 0, their number is 2 .. min(kMostGroups, n/2), the one with the
// largest silhouette, or one if none reaches kLeastSilhouette.
Labels cluster(const std::vector<Point>&, std::uint32_t k, std::uint64_t seed, std::uint64_t round);

// Returns the ranks of each group ascending, groups by their lowest rank. `k` = 0: the number as in
// cluster(). A sketch of zeros is a group of its own. If no sketch has a number other than 0, all
// workers are one group. The rank of a sketch does not influence its group.
std::vector<std::vector<Rank>> group_by_sketch(const std::map<Rank, std::vector<float>>& sketches,
                                               std::uint32_t k, std::uint64_t seed,
                                               std::uint64_t round);

// Returns the number of fresh updates that a round waits for: ceil(rho members), at least 1.
inline std::uint64_t quota_of(double rho, std::uint64_t members) {
  return std::max<std::uint64_t>(1, std::uint64_t(whole_up(rho * double(members))));
}

// Returns (1 + tau)^-1/2, the weight factor of an update that is tau versions late.
inline double lateness_weight(std::uint64_t tau) { return 1 / std::sqrt(1 + double(tau)); }

}  // namespace longhaul::sync::grouping
