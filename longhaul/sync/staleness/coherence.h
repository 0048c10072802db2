#pragma once
// Coherence compares the gradient at the newest parameters with those at earlier parameters, on a
// fixed set of samples. With g_k for the gradient in iteration k and a window of W iterations:
//   mu_k = min over m = 1 .. W of <g_k, g_(k-m)> / |g_k|^2
// Below 0, an update that is up to W iterations old may lead uphill. Lag 0, which always gives 1,
// is left out (ours).
//   Dai et al., "Toward understanding the impact of staleness in distributed machine learning",
//   ICLR 2019, in the abstract: gradient coherence.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <deque>
#include <limits>
#include <numeric>
#include <optional>
#include <span>
#include <vector>

#include "longhaul/base/archive.h"

namespace longhaul::sync::staleness {

class Coherence {
  static double inner_product(const std::vector<float>& a, const std::vector<float>& b) {
    return std::inner_product(a.begin(), a.end(), b.begin(), 0.0, std::plus<>(),
                              [](float x, float y) { return double(x) * double(y); });
  }

 public:
  struct Measured {
    double mu = 0;
    std::vector<double> cosines;  // for lags 1 .. W
  };
  // `window`: W, at least 1.
  explicit Coherence(std::uint32_t window) : window_(window) {}

  // Adds the gradient of the next iteration.
  void add(std::span<const float> gradient) {
    gradients_.emplace_front(gradient.begin(), gradient.end());
    if (gradients_.size() > std::size_t(window_) + 1) gradients_.pop_back();
  }

  // Measures the newest gradient. Returns nullopt if fewer than W gradients precede it or it is 0.
  std::optional<Measured> measure() const {
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

  void state(Archive& ar) { ar(gradients_); }

 private:
  std::uint32_t window_;
  std::deque<std::vector<float>> gradients_;  // the newest first
};

}  // namespace longhaul::sync::staleness
