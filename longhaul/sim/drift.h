#pragma once
// Slow change of a site's step time: a geometric random walk, multiplied by exp(N(0, deviation))
// every `every_s` seconds and reflected at the bounds. A pure function of (seed, site, time): a
// resumed run, a node over sockets and the simulator see the same values without saved state.
#include "longhaul/core/types.h"

namespace longhaul::sim {

struct StepTimeDrift {
  double deviation = 0;  // standard deviation of the logarithm, per move; 0: no drift
  double every_s = 60;   // between two moves; > 0
  double bound = 4;      // the factor stays within [1 / bound, bound]; >= 1
};

// Of a time of 0 or later; 1 before the first move.
double drift_factor(const StepTimeDrift&, std::uint64_t seed, std::uint32_t site, Time);

}  // namespace longhaul::sim
