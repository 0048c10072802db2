#pragma once
// Counts of the emulated WAN's router: "lab" of summary.json.
#include <cstdint>

#include "longhaul/base/fields.h"

namespace longhaul::run {

struct LabFigures {
  bool router_limited = false;  // the router delayed or dropped over 1 % of the packets
  double limited_share = 0;     // of packets: late by more than 1 ms, or refused
  double worst_late_ms = 0;
  double busy_share = 0;  // of one core
  double mbps = 0;        // total rate carried, on average
  std::uint64_t packets = 0, lost = 0, queue_full = 0, cut = 0, refused = 0;
  LONGHAUL_FIELDS(router_limited, limited_share, worst_late_ms, busy_share, mbps, packets, lost,
                  queue_full, cut, refused)
};

}  // namespace longhaul::run
