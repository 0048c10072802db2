#pragma once
// Coherence compares the gradient at the newest parameters with those at the parameters before, on
// a fixed set of samples: with g_k for the gradient in iteration k and a window of W iterations,
//   mu_k = min over m = 1 .. W of <g_k, g_(k-m)> / |g_k|^2
// Below 0, an update that is up to W iterations old may lead uphill. Lag 0, which always gives 1,
// is left out (ours).
//   Dai et al., "Toward understanding the impact of staleness in distributed machine learning",
//   ICLR 2019, in the abstract: gradient coherence.
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "longhaul/base/archive.h"

namespace longhaul::sync::staleness {

class Coherence {
 public:
  struct Measured {
    double mu = 0;
    std::vector<double> cosines;  // of lags 1 .. W
  };
  // `window`: W, at least 1.
  explicit Coherence(std::uint32_t window) : window_(window) {}

  // One an iteration.
  void add(std::span<const float> gradient);
  // Of the newest; nothing while there are fewer than W before it, or if it is 0.
  std::optional<Measured> measure() const;
  void state(Archive& ar) { ar(gradients_); }

 private:
  std::uint32_t window_;
  std::deque<std::vector<float>> gradients_;  // the newest first
};

}  // namespace longhaul::sync::staleness
