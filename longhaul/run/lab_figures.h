#pragma once
// What the router of an emulated WAN says of itself: "lab" of summary.json.
#include <cstdint>

#include "longhaul/base/fields.h"

namespace longhaul::run {

struct LabFigures {
  bool router_limited = false;  // more than 1 % of packets waited for the router, not for the WAN
  double limited_share = 0;     // of packets: late by more than 1 ms, or refused
  double worst_late_ms = 0;
  double busy_share = 0;  // of one core
  double mbps = 0;        // carried in all, on average
  std::uint64_t packets = 0, lost = 0, queue_full = 0, cut = 0, refused = 0;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit(Field{.name = "router_limited"}, self.router_limited);
    visit(Field{.name = "limited_share"}, self.limited_share);
    visit(Field{.name = "worst_late_ms"}, self.worst_late_ms);
    visit(Field{.name = "busy_share"}, self.busy_share);
    visit(Field{.name = "mbps"}, self.mbps);
    visit(Field{.name = "packets"}, self.packets);
    visit(Field{.name = "lost"}, self.lost);
    visit(Field{.name = "queue_full"}, self.queue_full);
    visit(Field{.name = "cut"}, self.cut);
    visit(Field{.name = "refused"}, self.refused);
  }
};

}  // namespace longhaul::run
