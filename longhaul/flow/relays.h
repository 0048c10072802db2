#pragma once
// Pairs of sites that can only reach each other through a third: neither can be dialled. What the
// network is to them, and which site relays. Pure functions.
#include <set>
#include <vector>

#include "longhaul/flow/wan.h"

namespace longhaul::flow {

inline constexpr std::size_t kMostRelays = 3;  // that a pair tries

// The sites through which two that dial out reach each other, the best first, kMostRelays at most:
// by the least rate of the four links to and from it and its own ports, then by delay, then by
// number. Empty: every site dials out. The same for (a, b) and (b, a).
std::vector<std::uint32_t> relays_of(const Wan&, const std::vector<bool>& dials_out,
                                     std::uint32_t a, std::uint32_t b);
// The network with every pair of sites that dial out as it is through its best relay: the smaller
// rate, delays added up, Pair::relay set. The relay's own port also carries it, which is left out.
Wan through_relays(Wan, const std::vector<bool>& dials_out);

// The pairs of a network that are relayed.
std::set<SitePair> relayed_pairs(const Wan&);

}  // namespace longhaul::flow
