#pragma once
// Pairs of sites that can only reach each other through a third, because neither can be dialled:
// their relays, and the network with their paths through them. Pure functions.
#include <set>
#include <vector>

#include "longhaul/flow/wan.h"

namespace longhaul::flow {

inline constexpr std::size_t kMostRelays = 3;  // maximum that a pair tries

// Returns the relays between two sites that dial out, the best first, kMostRelays at most. Order:
// the least rate of the relay's four links and its own ports, then delay, then number. Empty: every
// site dials out. Equal for (a, b) and (b, a).
std::vector<std::uint32_t> relays_of(const Wan&, const std::vector<bool>& dials_out,
                                     std::uint32_t a, std::uint32_t b);
// Returns the network in which every pair of sites that dial out goes through its best relay: the
// smaller rate, the sum of delays, and Pair::relay set. The load on the relay's port is left out.
Wan through_relays(Wan, const std::vector<bool>& dials_out);

// Returns the relayed pairs of a network.
std::set<SitePair> relayed_pairs(const Wan&);

}  // namespace longhaul::flow
