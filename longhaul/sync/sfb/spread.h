#pragma once
// Who passes the factors of an origin on to whom, so that they come to every worker exactly once.
//   full: the origin sends to all others.
//   tree: with ranks counted from the origin, r passes them on to r + 2^j for all 2^j > r: a
//     binomial tree of depth ceil(log2 P). Offsets of 1, 2, 4 ... reach everybody, which a fixed
//     set of log2 P offsets without passing on need not.
//   site: the origin sends to the workers of its site and to one of each other site, which passes
//     them on in its own; of m workers the one of number (origin mod m). Ours.
#include <string_view>

#include "longhaul/core/place.h"

namespace longhaul::sync::sfb {

enum class Spread : std::uint8_t { full, tree, site };

// By its name; "auto" as the job's workers say.
Spread spread_of(std::string_view name, const Place&);

// To whom `self` sends what comes from `origin`; `workers`: who lives, ascending, both among them.
// Ascending.
std::vector<Rank> next_hops(Spread, Rank origin, Rank self, const std::vector<Rank>& workers,
                            const Place&);

}  // namespace longhaul::sync::sfb
