#include "longhaul/doctor/schedule.h"

#include <algorithm>

namespace longhaul::doctor {

std::vector<Slot> round_robin_schedule(std::uint32_t sites) {
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

std::vector<Slot> one_by_one(std::uint32_t sites) {
  std::vector<Slot> slots;
  for (std::uint32_t a = 0; a < sites; ++a)
    for (std::uint32_t b = a + 1; b < sites; ++b) slots.push_back({{a, b}});
  return slots;
}

}  // namespace longhaul::doctor
