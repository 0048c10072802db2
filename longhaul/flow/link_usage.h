#pragma once
// How long the links of a Wan need for the bytes of a plan, in any order; the plan takes at least
// the time of the busiest link. Delays are left out.
#include <map>
#include <string>
#include <vector>

#include "longhaul/flow/wan.h"

namespace longhaul::flow {

struct LinkUsage {
  double seconds = 0;            // of the busiest link; 0: none that is used has a rate
  std::string link;              // which: "the uplink of tokyo"; of equal ones the first; "": none
  std::vector<double> up, down;  // seconds of each site's uplink and downlink
  // Seconds of a pair's bytes alone on the narrowest link of their path.
  std::map<SitePair, double> pairs;

  // Seconds as a share of those of the busiest link, from 0 to 1.
  double share_of(double of_seconds) const;
};

// `bytes` by ordered pair of different sites, in IP bytes. Traces count at their highest rate.
LinkUsage link_usage(const Wan&, const std::map<SitePair, double>& bytes);

}  // namespace longhaul::flow
