#pragma once
// The jitter of a path: by how much its delay differs from the usual one, as time goes by. Delays
// of packets that follow one another closely are alike, as they share the queues that make them
// differ: the deviation goes in straight lines from one normal value to the next, with a standard
// deviation of `sigma` over time. It falls by less than time passes, so that order is kept, but
// for one value in some thousands.
#include "longhaul/base/rng.h"
#include "longhaul/core/types.h"

namespace longhaul::lab {

class DelayJitter {
 public:
  // In seconds. Equal seeds and paths drift alike.
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
