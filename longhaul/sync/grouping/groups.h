#pragma once
// Groups of workers with like data, by the sketches of their gradients.
#include <map>

#include "longhaul/core/types.h"
#include "longhaul/sync/grouping/kmeans.h"

namespace longhaul::sync::grouping {

// The ranks of each group ascending, groups by their lowest rank. `k` = 0: as many as fit
// (cluster()). A sketch of zeros is a group of its own; of no numbers at all, or if all are zeros,
// everybody is one group. Which rank a sketch is of has no influence on who it is grouped with.
std::vector<std::vector<Rank>> group_by_sketch(const std::map<Rank, std::vector<float>>& sketches,
                                               std::uint32_t k, std::uint64_t seed,
                                               std::uint64_t round);

// ceil(rho members), at least 1: of whom a round waits for a fresh update.
std::uint64_t quota_of(double rho, std::uint64_t members);

// (1 + tau)^-1/2: what the weight of an update is multiplied by that is tau versions late.
double lateness_weight(std::uint64_t tau);

}  // namespace longhaul::sync::grouping
