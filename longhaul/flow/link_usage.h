#pragma once
// How long the links of a Wan are busy with bytes that a plan sends over them, whatever the order:
// no plan with these bytes takes less than the busiest link. Delays are left out.
#include <map>
#include <string>
#include <vector>

#include "longhaul/flow/wan.h"

namespace longhaul::flow {

struct LinkUsage {
  double seconds = 0;            // of the busiest link; 0: none that is used has a rate
  std::string link;              // which: "the uplink of tokyo"; of equal ones the first; "": none
  std::vector<double> up, down;  // seconds of each site's uplink and downlink
  // Seconds that a pair's bytes take if they have the narrowest link of their way to themselves.
  std::map<SitePair, double> pairs;

  // Seconds as a share of those of the busiest link, from 0 to 1.
  double share_of(double of_seconds) const;
};

// Bytes by ordered pair of different sites, as rates count them: IP bytes. What follows a trace
// counts at its highest rate.
LinkUsage link_usage(const Wan&, const std::map<SitePair, double>& bytes);

}  // namespace longhaul::flow
