#pragma once
// Routes of the factors of an origin, so that each worker receives them exactly once.
//   full: the origin sends to all other workers.
//   tree: with ranks counted from the origin, r passes them on to r + 2^j for all 2^j > r: a
//     binomial tree of depth ceil(log2 P). Offsets of 1, 2, 4 ... reach every worker. A fixed set
//     of log2 P offsets without passing on does not always.
//   site (ours): the origin sends to the workers of its site and to one of each other site, which
//     passes them on in its site: of m workers the one of number (origin mod m).
//   partial (ours): the origin sends to Q others, which change in each clock. No worker passes
//     them on. Of P workers in clock c they are those ((c Q + i) mod (P - 1)) + 1 after it, i < Q.
//     Every worker receives from each other one in any ceil((P - 1) / Q) clocks.
#include <string_view>

#include "longhaul/core/place.h"

namespace longhaul::sync::sfb {

enum class Spread : std::uint8_t { full, tree, site, partial };

// Returns the spread of this name; "auto" depends on the job's workers.
Spread spread_of(std::string_view name, const Place&);

// Returns the ranks, ascending, to which `self` sends the factors of `origin`. `workers`: the live
// workers, ascending, with both. Not for partial.
std::vector<Rank> next_hops(Spread, Rank origin, Rank self, const std::vector<Rank>& workers,
                            const Place&);

// Returns Q of partial spread: `peers`, or ceil(log2 P) if that is 0, but at most all others.
std::uint32_t partial_peers(std::uint32_t peers, std::size_t workers);
// Returns the number of clocks in which a worker sends to all others.
std::uint32_t partial_cycle(std::uint32_t peers, std::size_t workers);
// Return the ranks that receive this worker's factors of a clock, and those that send theirs to it.
// Ascending.
std::vector<Rank> partial_receivers(Round clock, Rank origin, std::uint32_t peers,
                                    const std::vector<Rank>& workers);
std::vector<Rank> partial_senders(Round clock, Rank self, std::uint32_t peers,
                                  const std::vector<Rank>& workers);

}  // namespace longhaul::sync::sfb
