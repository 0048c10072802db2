#include "longhaul/core/testing/least_squares.h"

#include <cmath>

namespace longhaul::testing {

double QuadraticForm::value(std::span<const double> x) const {
  double sum = c / 2;
  for (std::size_t i = 0; i < size(); ++i) {
    double row = 0;
    for (std::size_t j = 0; j < size(); ++j) row += a[i * size() + j] * x[j];
    sum += x[i] * (row / 2 - b[i]);
  }
  return sum;
}

std::vector<double> QuadraticForm::gradient(std::span<const double> x) const {
  std::vector<double> g(size());
  for (std::size_t i = 0; i < size(); ++i) {
    g[i] = -b[i];
    for (std::size_t j = 0; j < size(); ++j) g[i] += a[i * size() + j] * x[j];
  }
  return g;
}

// Cholesky: A + weight I = L L', then two triangular systems.
std::vector<double> QuadraticForm::argmin(double weight, std::span<const double> pull) const {
  const std::size_t n = size();
  std::vector<double> l = a, x(n);
  for (std::size_t i = 0; i < n; ++i) {
    l[i * n + i] += weight;
    for (std::size_t j = 0; j <= i; ++j) {
      double sum = l[i * n + j];
      for (std::size_t k = 0; k < j; ++k) sum -= l[i * n + k] * l[j * n + k];
      l[i * n + j] = i == j ? std::sqrt(sum) : sum / l[j * n + j];
    }
  }
  for (std::size_t i = 0; i < n; ++i) {
    double sum = b[i] + pull[i];
    for (std::size_t k = 0; k < i; ++k) sum -= l[i * n + k] * x[k];
    x[i] = sum / l[i * n + i];
  }
  for (std::size_t i = n; i-- > 0;) {
    for (std::size_t k = i + 1; k < n; ++k) x[i] -= l[k * n + i] * x[k];
    x[i] /= l[i * n + i];
  }
  return x;
}

QuadraticForm& QuadraticForm::operator+=(const QuadraticForm& other) {
  if (b.empty()) return *this = other;
  for (std::size_t i = 0; i < a.size(); ++i) a[i] += other.a[i];
  for (std::size_t i = 0; i < b.size(); ++i) b[i] += other.b[i];
  c += other.c;
  return *this;
}

QuadraticForm least_squares(std::span<const std::vector<double>> rows) {
  const std::size_t n = rows.front().size() - 1;
  QuadraticForm form{std::vector<double>(n * n), std::vector<double>(n), 0};
  for (const std::vector<double>& row : rows) {
    for (std::size_t i = 0; i < n; ++i) {
      form.b[i] += row[i] * row[n];
      for (std::size_t j = 0; j < n; ++j) form.a[i * n + j] += row[i] * row[j];
    }
    form.c += row[n] * row[n];
  }
  return form;
}

LeastSquares::LeastSquares(QuadraticForm form)
    : form_(std::move(form)),
      layout_(Layout::flat(form_.size())),
      params_(form_.size()),
      grads_(form_.size()) {}

Result<StepResult> LeastSquares::step(const Work& work) {
  StepResult result{.samples = 1, .shard_size = 1, .exhausted = true};
  if (const auto* solve = std::get_if<LocalSolve>(&work)) {
    LH_CHECK(solve->summed);
    std::vector<double> pull(form_.size());
    double weights = 0;
    for (std::size_t i = 0; i < pull.size() && !solve->linear.empty(); ++i)
      pull[i] = -solve->linear[i];
    for (const auto& [weight, anchor] : solve->anchors) {
      for (std::size_t i = 0; i < pull.size(); ++i) pull[i] += weight * anchor[i];
      weights += weight;
    }
    result.solution = form_.argmin(weights, pull);
    result.loss = form_.value(result.solution);
    solved.push_back({solve->linear, result.solution, {}});
    for (const auto& [weight, anchor] : solve->anchors) solved.back().anchors.push_back(anchor);
    return result;
  }
  const auto* gradient = std::get_if<FullGradient>(&work);
  if (!gradient) return invalid("the least-squares learner has no such kind of work");
  LH_CHECK(gradient->summed);
  result.solution = form_.gradient(gradient->at);
  result.loss = form_.value(gradient->at);
  gradients.push_back(gradient->at);
  return result;
}

void LeastSquares::state(Archive& ar) {
  ar.floats(params_);
  ar.floats(grads_);
}

}  // namespace longhaul::testing
