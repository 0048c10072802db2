#pragma once
// The router of the emulated WAN: moves IP packets between the sites' TUN devices as the Shaper
// says, in real time. The class of service of a packet is its DSCP / 8, as the class selectors
// have it (RFC 2474): CS7 goes first, unmarked traffic last.
//
// It knows its own limits: a packet that it delivers more than kLate after its time, or could not
// take, is one that the router has delayed and not the WAN. A run with more than kMaxLimitedShare
// of those says little about the WAN.
#include <optional>
#include <vector>

#include "longhaul/base/result.h"
#include "longhaul/flow/wan.h"
#include "longhaul/lab/shaper.h"

namespace longhaul::lab {

inline constexpr Time kLate = std::chrono::milliseconds(1);
inline constexpr double kMaxLimitedShare = 0.01;
inline constexpr double kRouterRate = 125e6;  // bytes/s that one carries in all, about

struct RouterConfig {
  flow::Wan wan;                     // its traces begin with the first packet between sites
  std::uint64_t seed = 1;            // of loss and jitter
  std::vector<Change> changes = {};  // at times since that packet
  std::vector<int> tuns = {};        // descriptors by site; the caller's to close
  int stop = -1;                     // readable: the end
};

struct RouterFigures {
  double seconds = 0;                    // that it ran
  double busy_share = 0;                 // of them: of one core's time
  std::uint64_t packets = 0, bytes = 0;  // taken from the sites, IP headers counted
  std::uint64_t delivered = 0, lost = 0, queue_full = 0, cut = 0;
  std::uint64_t refused = 0;  // that it or its devices had no room or time for
  std::uint64_t late = 0;     // by more than kLate
  double worst_late_ms = 0;

  double limited_share() const;  // of packets
  bool limited() const { return limited_share() > kMaxLimitedShare; }
};

// Until `stop`; one thread.
Result<RouterFigures> route(const RouterConfig&);

// What all sites together may send and receive at a time, bytes/s; absent: there is no limit. What
// changes with time counts with its highest rate.
flow::Rate demand_on_router(const flow::Wan&);
// "" or, for the user, that this is more than the router carries.
std::string router_overload_warning(const flow::Wan&);

}  // namespace longhaul::lab
