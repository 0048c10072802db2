#pragma once
// What TCP's fair sharing gives each ordered pair of sites while a set of them sends.
#include <vector>

#include "longhaul/flow/capacities.h"

namespace longhaul::flow {

// Bytes per second of each ordered pair, by row, while all pairs with `busy` send without a pause
// on one connection each: max-min fair (fair_share.h). 0 for the others; kUnlimited where nothing
// limits.
std::vector<double> pair_shares(const Capacities&, const std::vector<bool>& busy);

}  // namespace longhaul::flow
