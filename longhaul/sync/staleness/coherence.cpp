#include "longhaul/sync/staleness/coherence.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace longhaul::sync::staleness {
namespace {

double inner_product(const std::vector<float>& a, const std::vector<float>& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0, std::plus<>(),
                            [](float x, float y) { return double(x) * double(y); });
}

}  // namespace

void Coherence::add(std::span<const float> gradient) {
  gradients_.emplace_front(gradient.begin(), gradient.end());
  if (gradients_.size() > std::size_t(window_) + 1) gradients_.pop_back();
}

std::optional<Coherence::Measured> Coherence::measure() const {
  if (gradients_.size() <= window_) return std::nullopt;
  const std::vector<float>& newest = gradients_.front();
  const double square = inner_product(newest, newest);
  if (!(square > 0)) return std::nullopt;
  Measured measured;
  measured.mu = std::numeric_limits<double>::infinity();
  for (std::size_t m = 1; m <= window_; ++m) {
    const std::vector<float>& before = gradients_[m];
    const double product = inner_product(newest, before);
    const double norm = std::sqrt(square * inner_product(before, before));
    measured.mu = std::min(measured.mu, product / square);
    measured.cosines.push_back(norm > 0 ? product / norm : 0);
  }
  return measured;
}

}  // namespace longhaul::sync::staleness
