#pragma once
// Internal to learn/data: one of `count` numbers, the k-th (from 1) k^-exponent as often as the
// first (Zipf's law).
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <vector>

#include "longhaul/base/rng.h"

namespace longhaul::learn {

class ByShare {
 public:
  ByShare(std::uint32_t count, double exponent) {
    double sum = 0;
    for (std::uint32_t k = 1; k <= count; ++k) sums_.push_back(sum += std::pow(k, -exponent));
  }
  // From 0.
  std::uint32_t draw(Random& random) const {
    const auto at = std::ranges::upper_bound(sums_, random.uniform() * sums_.back());
    return std::uint32_t(std::min<std::ptrdiff_t>(at - sums_.begin(), std::ssize(sums_) - 1));
  }

 private:
  std::vector<double> sums_;
};

}  // namespace longhaul::learn
