#pragma once
// How far a site's step time has drifted by a moment: a geometric random walk, which every
// `every_s` seconds is multiplied by exp(N(0, deviation)) and turned back at the bounds. A pure
// function of (seed, site, time), so that a run that goes on, a node over sockets and the
// simulator see the same, and nobody has a walk to save or to catch up with.
#include "longhaul/core/types.h"

namespace longhaul::sim {

struct StepTimeDrift {
  double deviation = 0;  // of the logarithm, of one move; 0: none
  double every_s = 60;   // between two moves; > 0
  double bound = 4;      // the factor stays within [1 / bound, bound]; >= 1
};

// Of a time of 0 or later; 1 before the first move.
double drift_factor(const StepTimeDrift&, std::uint64_t seed, std::uint32_t site, Time);

}  // namespace longhaul::sim
