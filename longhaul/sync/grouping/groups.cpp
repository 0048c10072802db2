// The same bits on every processor: Eigen is kept from using vector instructions of its own.
#define EIGEN_DONT_VECTORIZE
#include "longhaul/sync/grouping/groups.h"

#include <Eigen/Eigenvalues>
#include <limits>

#include "longhaul/base/check.h"
#include "longhaul/base/rng.h"

namespace longhaul::sync::grouping {
namespace {

double dot(const Point& a, const Point& b) {
  double sum = 0;
  for (std::size_t k = 0; k < a.size(); ++k) sum += a[k] * b[k];
  return sum;
}

void normalise_and_centre(std::vector<Point>& rows) {
  Point mean(rows.front().size());
  for (Point& row : rows) {
    const double norm = std::sqrt(dot(row, row));
    LH_CHECK(norm > 0 && row.size() == mean.size());
    for (std::size_t k = 0; k < row.size(); ++k) {
      row[k] /= norm;
      mean[k] += row[k] / double(rows.size());
    }
  }
  for (Point& row : rows)
    for (std::size_t k = 0; k < row.size(); ++k) row[k] -= mean[k];
}

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

std::vector<Point> component_scores(std::vector<Point> rows) {
  if (rows.empty()) return {};
  normalise_and_centre(rows);
  const auto n = Eigen::Index(rows.size());
  Eigen::MatrixXd gram(n, n);
  for (Eigen::Index i = 0; i < n; ++i)
    for (Eigen::Index j = 0; j < n; ++j)
      gram(i, j) = dot(rows[std::size_t(i)], rows[std::size_t(j)]);
  const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solved(gram);
  LH_CHECK(solved.info() == Eigen::Success);
  double all = 0;
  for (Eigen::Index c = 0; c < n; ++c) all += std::max(solved.eigenvalues()[c], 0.0);
  std::vector<Point> scores(rows.size());
  double held = 0;
  const auto most = std::min(n, Eigen::Index(kMostComponents));
  for (Eigen::Index c = 0; c < most && (c == 0 || held < kVariance * all); ++c) {
    const Eigen::Index column = n - 1 - c;  // eigenvalues ascend
    const double value = std::max(solved.eigenvalues()[column], 0.0);
    held += value;
    const auto vector = solved.eigenvectors().col(column);
    Eigen::Index largest = 0;
    vector.cwiseAbs().maxCoeff(&largest);
    const double scale = (vector(largest) < 0 ? -1 : 1) * std::sqrt(value);
    for (Eigen::Index i = 0; i < n; ++i) scores[std::size_t(i)].push_back(scale * vector(i));
  }
  return scores;
}

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
  const std::uint32_t clusters = *std::ranges::max_element(labels) + 1;
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

std::vector<std::vector<Rank>> group_by_sketch(const std::map<Rank, std::vector<float>>& sketches,
                                               std::uint32_t k, std::uint64_t seed,
                                               std::uint64_t round) {
  std::vector<std::pair<std::vector<float>, Rank>> order;  // by sketch: ranks have no influence
  std::vector<std::vector<Rank>> groups;
  for (const auto& [rank, sketch] : sketches) {
    const bool zero = std::ranges::all_of(sketch, [](float s) { return s == 0; });
    zero ? groups.push_back({rank}) : order.push_back({sketch, rank});
  }
  if (order.empty()) {
    std::vector<Rank> everybody;
    for (const auto& [rank, sketch] : sketches) everybody.push_back(rank);
    return {everybody};
  }
  std::ranges::sort(order);
  std::vector<Point> rows;
  for (const auto& [sketch, rank] : order) rows.emplace_back(sketch.begin(), sketch.end());
  const Labels labels = cluster(component_scores(std::move(rows)), k, seed, round);
  std::map<std::uint32_t, std::vector<Rank>> by_label;
  for (std::size_t i = 0; i < order.size(); ++i) by_label[labels[i]].push_back(order[i].second);
  for (auto& [label, members] : by_label) {
    std::ranges::sort(members);
    groups.push_back(std::move(members));
  }
  std::ranges::sort(groups);
  return groups;
}

}  // namespace longhaul::sync::grouping
