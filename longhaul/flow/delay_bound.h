#pragma once
// How fast a collective can be where delays count beside rates: docs/bounds.md has the proofs. What
// bound.h puts beside its limits of bandwidth alone. A pure function.
#include <optional>

#include "longhaul/flow/bound.h"
#include "longhaul/flow/capacities.h"

namespace longhaul::flow {

// Beyond so many sites only bandwidth counts: all shortest paths take time with their cube.
inline constexpr std::size_t kMaxSitesForDelays = 200;

// The longest of these limits. Absent: no delays, nothing to bound, or too many sites. A delay that
// varies (jitter, trace) counts as none.
std::optional<Limit> delay_limit(const Wan&, const Capacities&, const Task&);

}  // namespace longhaul::flow
