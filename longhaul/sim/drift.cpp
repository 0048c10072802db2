#include "longhaul/sim/drift.h"

#include <bit>
#include <cmath>

#include "longhaul/base/rng.h"

namespace longhaul::sim {
namespace {

class Walk {
 public:
  Walk(std::uint64_t seed, std::uint32_t site) : seed_(seed), site_(site) {}

  // The sum of the first `moves` of independent standard normal numbers. Drawn as in Levy's
  // construction of Brownian motion: at the powers of two first, then from halves to halves, so
  // that any place is reached in as many draws as its number has digits.
  double at(std::uint64_t moves) const {
    if (moves == 0) return 0;
    std::uint64_t low = 1;
    double at_low = draw(1);
    while (low < std::bit_floor(moves)) {
      at_low += std::sqrt(double(low)) * draw(2 * low);
      low *= 2;
    }
    if (low == moves) return at_low;
    std::uint64_t length = low;  // to the next power of two
    double at_high = at_low + std::sqrt(double(length)) * draw(2 * low);
    while (low < moves) {
      length /= 2;
      const std::uint64_t middle = low + length;
      const double at_middle =
          (at_low + at_high) / 2 + std::sqrt(double(length) / 2) * draw(middle);
      if (middle <= moves) {
        low = middle;
        at_low = at_middle;
      } else {
        at_high = at_middle;
      }
    }
    return at_low;
  }

 private:
  // Every place of the walk is drawn for once. The stream counts 32 bits of round; the range holds
  // the rest.
  double draw(std::uint64_t place) const {
    return Random(seed_, {Purpose::drift, place & 0xFFFFFFFF, site_, std::uint32_t(place >> 32)})
        .normal();
  }

  const std::uint64_t seed_;
  const std::uint32_t site_;
};

// A walk without bounds, folded into them: by symmetry as if it were turned back there.
double folded(double x, double bound) {
  if (bound == 0) return 0;
  const double period = 4 * bound;
  const double y = x + bound - period * std::floor((x + bound) / period);  // in [0, period)
  return y <= 2 * bound ? y - bound : 3 * bound - y;
}

}  // namespace

double drift_factor(const StepTimeDrift& drift, std::uint64_t seed, std::uint32_t site, Time time) {
  if (drift.deviation == 0) return 1;
  const auto moves = std::uint64_t(seconds(time) / drift.every_s);
  const double walked = drift.deviation * Walk(seed, site).at(moves);
  return std::exp(folded(walked, std::log(drift.bound)));
}

}  // namespace longhaul::sim
