#pragma once
// Which pairs of sites are measured at the same time: pure, no state.
#include <cstdint>
#include <utility>
#include <vector>

namespace longhaul::doctor {

using Pair = std::pair<std::uint32_t, std::uint32_t>;  // sites, the lower first
using Slot = std::vector<Pair>;

// A round-robin schedule (circle method): every pair of `sites` once, in the fewest slots, no site
// twice in a slot, so that no site's uplink or downlink carries two measurements.
std::vector<Slot> round_robin_schedule(std::uint32_t sites);
// Every pair once, alone: for networks where pairs of different sites share a link.
std::vector<Slot> one_by_one(std::uint32_t sites);

}  // namespace longhaul::doctor
