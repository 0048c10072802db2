#include "longhaul/lab/delay_jitter.h"

#include <algorithm>
#include <cmath>

namespace longhaul::lab {

DelayJitter::DelayJitter(double sigma, std::uint64_t seed, std::uint32_t from, std::uint32_t to)
    : sigma_(sigma),
      seed_(seed),
      from_(from),
      to_(to),
      spacing_(std::max<std::int64_t>(10'000'000, std::llround(sigma * 1e10))) {}

double DelayJitter::knot(std::int64_t k) const {
  return Random(seed_, {Purpose::jitter, std::uint64_t(k), from_, to_}).normal();
}

double DelayJitter::at(Time t) const {
  if (sigma_ == 0) return 0;
  const std::int64_t k = t.count() / spacing_;
  const double share = double(t.count() % spacing_) / double(spacing_);
  // Between knots the variance is (1-s)^2 + s^2 of theirs, 2/3 on average.
  return sigma_ * std::sqrt(1.5) * ((1 - share) * knot(k) + share * knot(k + 1));
}

}  // namespace longhaul::lab
