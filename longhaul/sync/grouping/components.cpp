// The same bits on every processor: Eigen is kept from using vector instructions of its own.
#define EIGEN_DONT_VECTORIZE
#include "longhaul/sync/grouping/components.h"

#include <Eigen/Eigenvalues>
#include <algorithm>
#include <cmath>

#include "longhaul/base/check.h"

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

}  // namespace longhaul::sync::grouping
