#pragma once
// K-means of a few points, with several seeded starts, and how many clusters there are.
//   Lloyd, "Least squares quantization in PCM", 1982; starts: Arthur, Vassilvitskii, "k-means++",
//   SODA 2007; their number: Rousseeuw, "Silhouettes", 1987.
#include <cstdint>
#include <vector>

#include "longhaul/sync/grouping/components.h"

namespace longhaul::sync::grouping {

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

}  // namespace longhaul::sync::grouping
