#pragma once
// The jitter of a path: the difference of its delay from the mean, over time. Consecutive packets
// have similar delays, because they share queues: the deviation is piecewise linear between normal
// values with standard deviation `sigma`. It falls more slowly than time passes, so that packets
// keep their order, except for one value in some thousands.
#include <algorithm>
#include <cmath>

#include "longhaul/base/rng.h"
#include "longhaul/core/types.h"

namespace longhaul::sim {

class DelayJitter {
 public:
  // `sigma` in seconds. Equal seeds and pairs give equal values.
  DelayJitter(double sigma, std::uint64_t seed, std::uint32_t from, std::uint32_t to)
      : sigma_(sigma),
        seed_(seed),
        from_(from),
        to_(to),
        spacing_(std::max<std::int64_t>(10'000'000, std::llround(sigma * 1e10))) {}

  double at(Time t) const {
    if (sigma_ == 0) return 0;
    const std::int64_t k = t.count() / spacing_;
    const double share = double(t.count() % spacing_) / double(spacing_);
    // Between knots the variance is (1-s)^2 + s^2 of theirs, 2/3 on average.
    return sigma_ * std::sqrt(1.5) * ((1 - share) * knot(k) + share * knot(k + 1));
  }

 private:
  double knot(std::int64_t k) const {
    return Random(seed_, {Purpose::jitter, std::uint64_t(k), from_, to_}).normal();
  }

  double sigma_;
  std::uint64_t seed_;
  std::uint32_t from_, to_;
  std::int64_t spacing_;  // ns between knots
};

}  // namespace longhaul::sim
