#pragma once
// Numbers of samples, added up from the messages of peers.
#include <algorithm>
#include <cmath>
#include <cstdint>

namespace longhaul {

inline constexpr double kMostSamples = 0x1p50;  // in a run, by all nodes

// Returns the sum, at most kMostSamples: a wrong number of one peer never makes a sum too large to
// be sent. Numbers below 0, and NaN, count as 0.
inline std::uint64_t plus_samples(std::uint64_t sum, double more) {
  if (!(more > 0)) return sum;
  return std::uint64_t(std::min(double(sum) + std::round(more), kMostSamples));
}

}  // namespace longhaul
