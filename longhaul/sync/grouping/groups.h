#pragma once
// Groups of workers with like data, by the sketches of their gradients: k-means of a few points in
// the space of their principal components.
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

inline constexpr double kVariance = 0.9;  // that the components together hold, at least
inline constexpr std::size_t kMostComponents = 8;

// Rows of one length and of norm > 0 are brought to norm 1 and centred; of each its scores on the
// fewest components that hold kVariance of the variance, kMostComponents at most and 1 at least.
// The largest score in size of each component is positive.
std::vector<Point> component_scores(std::vector<Point> rows);

using Labels = std::vector<std::uint32_t>;  // of each point its cluster, from 0

inline constexpr std::uint32_t kRestarts = 20, kSteps = 100, kMostGroups = 8;
inline constexpr double kLeastSilhouette = 0.25;

// Of kRestarts starts the one of least inertia, of equals the first. 1 <= k <= points.size(); a
// cluster may come out empty if points are equal.
Labels kmeans(const std::vector<Point>&, std::uint32_t k, std::uint64_t seed, std::uint64_t round);

// The mean over the points of (b - a) / max(a, b): a, the mean distance to the others of its
// cluster; b, to those of the nearest other one. 0 for a point alone in its cluster.
double silhouette(const std::vector<Point>&, const Labels&);

// Into `k` clusters; 0: into 2 .. min(kMostGroups, n/2), whichever has the largest silhouette, or
// one if none reaches kLeastSilhouette.
Labels cluster(const std::vector<Point>&, std::uint32_t k, std::uint64_t seed, std::uint64_t round);

// The ranks of each group ascending, groups by their lowest rank. `k` = 0: as many as fit
// (cluster()). A sketch of zeros is a group of its own; of no numbers at all, or if all are zeros,
// everybody is one group. Which rank a sketch is of has no influence on who it is grouped with.
std::vector<std::vector<Rank>> group_by_sketch(const std::map<Rank, std::vector<float>>& sketches,
                                               std::uint32_t k, std::uint64_t seed,
                                               std::uint64_t round);

// ceil(rho members), at least 1: of whom a round waits for a fresh update.
inline std::uint64_t quota_of(double rho, std::uint64_t members) {
  return std::max<std::uint64_t>(1, std::uint64_t(whole_up(rho * double(members))));
}

// (1 + tau)^-1/2: what the weight of an update is multiplied by that is tau versions late.
inline double lateness_weight(std::uint64_t tau) { return 1 / std::sqrt(1 + double(tau)); }

}  // namespace longhaul::sync::grouping
