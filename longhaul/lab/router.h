#pragma once
// The router of the emulated WAN: moves IP packets between the sites' TUN devices at the times that
// the Shaper computes. A packet's class of service is that of its DSCP (service_class_of): CS7 goes
// first, then the lower class selectors, unmarked traffic, and lower effort last.
//
// The router counts the packets that it, not the WAN, delayed or dropped: packets delivered more
// than kLate after their time, and packets it could not accept. A run with more than
// kMaxLimitedShare of them says little about the WAN.
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "longhaul/base/result.h"
#include "longhaul/flow/wan.h"
#include "longhaul/sim/shaper.h"

namespace longhaul::lab {

using sim::Change, sim::PacketFate, sim::PacketOutcome, sim::Shaper;

inline constexpr Time kLate = std::chrono::milliseconds(1);
inline constexpr double kMaxLimitedShare = 0.01;
inline constexpr double kRouterRate = 125e6;  // bytes/s that one router carries in total, about

struct RouterConfig {
  flow::Wan wan;                     // traces start at the first packet between sites
  std::uint64_t seed = 1;            // seed of loss and jitter
  std::vector<Change> changes = {};  // times since that packet
  std::vector<int> tuns = {};        // descriptors by site; the caller's to close
  int stop = -1;                     // when readable: end
};

struct RouterFigures {
  double seconds = 0;                    // of running
  double busy_share = 0;                 // share of one core's time
  std::uint64_t packets = 0, bytes = 0;  // read from the sites, with IP headers
  std::uint64_t delivered = 0, lost = 0, queue_full = 0, cut = 0;
  std::uint64_t refused = 0;  // dropped: the router or its devices had no room or time
  std::uint64_t late = 0;     // delivered more than kLate after their time
  double worst_late_ms = 0;

  double limited_share() const;  // of packets
  bool limited() const { return limited_share() > kMaxLimitedShare; }
};

// Runs until `stop` is readable; one thread.
Result<RouterFigures> route(const RouterConfig&);

// The most that all sites together may send or receive, bytes/s; absent: unlimited. Traces count at
// their highest rate.
flow::Rate demand_on_router(const flow::Wan&);
// A warning for the user if the demand exceeds the router's rate; else "".
std::string router_overload_warning(const flow::Wan&);

// Whether an IPv4 packet is a TCP segment (RFC 9293) that only acknowledges: no data, no SYN, FIN
// or RST: the router queues it apart from data. False for truncated packets and later fragments.
bool is_bare_acknowledgement(std::span<const std::byte> packet);

}  // namespace longhaul::lab
