#include "longhaul/sync/grouping/kmeans.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "longhaul/base/check.h"
#include "longhaul/base/rng.h"

namespace longhaul::sync::grouping {
namespace {

double distance2(const Point& a, const Point& b) {
  double sum = 0;
  for (std::size_t k = 0; k < a.size(); ++k) sum += (a[k] - b[k]) * (a[k] - b[k]);
  return sum;
}

std::uint32_t nearest(const Point& point, const std::vector<Point>& centres) {
  std::uint32_t best = 0;
  for (std::uint32_t c = 1; c < centres.size(); ++c)
    if (distance2(point, centres[c]) < distance2(point, centres[best])) best = c;
  return best;
}

// Each next centre is a point, drawn by its squared distance to the nearest centre so far.
std::vector<Point> first_centres(const std::vector<Point>& points, std::uint32_t k,
                                 Random& random) {
  std::vector<Point> centres{points[random.below(points.size())]};
  while (centres.size() < k) {
    std::vector<double> weights;
    double all = 0;
    for (const Point& p : points)
      all += weights.emplace_back(distance2(p, centres[nearest(p, centres)]));
    double left = random.uniform() * all;
    std::size_t drawn = 0;
    while (drawn + 1 < points.size() && left >= weights[drawn]) left -= weights[drawn++];
    centres.push_back(points[drawn]);
  }
  return centres;
}

// A cluster without points keeps its centre.
void move_centres(std::vector<Point>& centres, const std::vector<Point>& points,
                  const Labels& labels) {
  for (std::uint32_t c = 0; c < centres.size(); ++c) {
    Point sum(points.front().size());
    double count = 0;
    for (std::size_t i = 0; i < points.size(); ++i) {
      if (labels[i] != c) continue;
      ++count;
      for (std::size_t k = 0; k < sum.size(); ++k) sum[k] += points[i][k];
    }
    if (count == 0) continue;
    for (double& s : sum) s /= count;
    centres[c] = std::move(sum);
  }
}

}  // namespace

Labels kmeans(const std::vector<Point>& points, std::uint32_t k, std::uint64_t seed,
              std::uint64_t round) {
  LH_CHECK(k >= 1 && k <= points.size());
  Labels best;
  double least = std::numeric_limits<double>::infinity();
  for (std::uint32_t start = 0; start < kRestarts; ++start) {
    Random random(seed, {Purpose::members, round, k, 1 + start});  // 0: which sites take part
    std::vector<Point> centres = first_centres(points, k, random);
    Labels labels(points.size(), k);
    for (std::uint32_t step = 0; step < kSteps; ++step) {
      Labels next;
      for (const Point& p : points) next.push_back(nearest(p, centres));
      if (next == labels) break;
      labels = std::move(next);
      move_centres(centres, points, labels);
    }
    double inertia = 0;
    for (std::size_t i = 0; i < points.size(); ++i)
      inertia += distance2(points[i], centres[labels[i]]);
    if (inertia >= least) continue;
    least = inertia;
    best = std::move(labels);
  }
  return best;
}

double silhouette(const std::vector<Point>& points, const Labels& labels) {
  const std::uint32_t clusters = *std::max_element(labels.begin(), labels.end()) + 1;
  double sum = 0;
  for (std::size_t i = 0; i < points.size(); ++i) {
    std::vector<double> far(clusters), count(clusters);
    for (std::size_t j = 0; j < points.size(); ++j) {
      if (j == i) continue;
      far[labels[j]] += std::sqrt(distance2(points[i], points[j]));
      ++count[labels[j]];
    }
    if (count[labels[i]] == 0) continue;
    const double a = far[labels[i]] / count[labels[i]];
    double b = std::numeric_limits<double>::infinity();
    for (std::uint32_t c = 0; c < clusters; ++c)
      if (c != labels[i] && count[c] > 0) b = std::min(b, far[c] / count[c]);
    if (std::isfinite(b) && std::max(a, b) > 0) sum += (b - a) / std::max(a, b);
  }
  return sum / double(points.size());
}

Labels cluster(const std::vector<Point>& points, std::uint32_t k, std::uint64_t seed,
               std::uint64_t round) {
  const auto n = std::uint32_t(points.size());
  if (k > 0) return kmeans(points, std::min(k, n), seed, round);
  Labels best(n, 0);
  double highest = kLeastSilhouette;
  for (std::uint32_t g = 2; g <= std::min(kMostGroups, n / 2); ++g) {
    Labels labels = kmeans(points, g, seed, round);
    const double value = silhouette(points, labels);
    if (value < highest || (value == highest && g > 2)) continue;
    highest = value;
    best = std::move(labels);
  }
  return best;
}

}  // namespace longhaul::sync::grouping
