#pragma once
// Which pairs of sites are measured at the same time: pure, no state.
#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace longhaul::doctor {

using Pair = std::pair<std::uint32_t, std::uint32_t>;  // sites, the lower first
using Slot = std::vector<Pair>;

// A round-robin schedule (circle method): every pair of `sites` once, in the fewest slots, no site
// twice in a slot, so that no site's uplink or downlink carries two measurements.
inline std::vector<Slot> round_robin_schedule(std::uint32_t sites) {
  std::vector<Slot> slots;
  if (sites < 2) return slots;
  const std::uint32_t seats = sites + sites % 2;  // of an odd number one rests in each slot
  const std::uint32_t circle = seats - 1;         // the last seat stays, the others go round
  for (std::uint32_t turn = 0; turn < circle; ++turn) {
    Slot& slot = slots.emplace_back();
    for (std::uint32_t seat = 0; seat < seats / 2; ++seat) {
      const std::uint32_t a = (turn + seat) % circle;
      const std::uint32_t b = seat == 0 ? circle : (turn + circle - seat) % circle;
      if (a < sites && b < sites) slot.push_back(std::minmax({a, b}));
    }
    std::sort(slot.begin(), slot.end());
  }
  return slots;
}

// Every pair once, alone: for networks where pairs of different sites share a link.
inline std::vector<Slot> one_by_one(std::uint32_t sites) {
  std::vector<Slot> slots;
  for (std::uint32_t a = 0; a < sites; ++a)
    for (std::uint32_t b = a + 1; b < sites; ++b) slots.push_back({{a, b}});
  return slots;
}

}  // namespace longhaul::doctor
