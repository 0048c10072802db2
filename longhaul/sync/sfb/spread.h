#pragma once
// Who passes the factors of an origin on to whom, so that they come to every worker exactly once.
//   full: the origin sends to all others.
//   tree: with ranks counted from the origin, r passes them on to r + 2^j for all 2^j > r: a
//     binomial tree of depth ceil(log2 P). Offsets of 1, 2, 4 ... reach everybody, which a fixed
//     set of log2 P offsets without passing on need not.
//   site: the origin sends to the workers of its site and to one of each other site, which passes
//     them on in its own; of m workers the one of number (origin mod m). Ours.
//   partial: the origin sends to Q of the others, in each clock to others, and nobody passes on: of
//     P workers in clock c to those ((c Q + i) mod (P - 1)) + 1 behind it, i < Q. Every worker
//     hears of each other one in any ceil((P - 1) / Q) clocks. Ours.
#include <string_view>

#include "longhaul/core/place.h"

namespace longhaul::sync::sfb {

enum class Spread : std::uint8_t { full, tree, site, partial };

// By its name; "auto" as the job's workers say.
Spread spread_of(std::string_view name, const Place&);

// To whom `self` sends what comes from `origin`; `workers`: who lives, ascending, both among them.
// Ascending. Not for partial.
std::vector<Rank> next_hops(Spread, Rank origin, Rank self, const std::vector<Rank>& workers,
                            const Place&);

// Of partial spread among `workers` (ascending). Q: `peers`, or ceil(log2 P) if that is 0, and all
// others if those are fewer;
std::uint32_t partial_peers(std::uint32_t peers, std::size_t workers);
// the clocks in which a worker has sent to all others;
std::uint32_t partial_cycle(std::uint32_t peers, std::size_t workers);
// to whom one of them sends its factors of a clock, and who sends it theirs. Ascending.
std::vector<Rank> partial_receivers(Round clock, Rank origin, std::uint32_t peers,
                                    const std::vector<Rank>& workers);
std::vector<Rank> partial_senders(Round clock, Rank self, std::uint32_t peers,
                                  const std::vector<Rank>& workers);

}  // namespace longhaul::sync::sfb
