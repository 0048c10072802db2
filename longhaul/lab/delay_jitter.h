#pragma once
// The jitter of a path: the difference of its delay from the mean, over time. Consecutive packets
// have similar delays, because they share queues: the deviation is piecewise linear between normal
// values with standard deviation `sigma`. It falls more slowly than time passes, so that packets
// keep their order, except for one value in some thousands.
#include "longhaul/base/rng.h"
#include "longhaul/core/types.h"

namespace longhaul::lab {

class DelayJitter {
 public:
  // `sigma` in seconds. Equal seeds and pairs give equal values.
  DelayJitter(double sigma, std::uint64_t seed, std::uint32_t from, std::uint32_t to);
  double at(Time) const;

 private:
  double knot(std::int64_t) const;

  double sigma_;
  std::uint64_t seed_;
  std::uint32_t from_, to_;
  std::int64_t spacing_;  // ns between knots
};

}  // namespace longhaul::lab
