#pragma once
// The plan of a job's overlay in words and tables.
#include <string>

#include "longhaul/run/plan.h"

namespace longhaul::cli {

// A table of more shows those that are used most, and says how many are left out.
inline constexpr std::size_t kMaxRows = 20;

// What the busiest link takes; then pairs, sites and trees, as far as there are any.
std::string plan_text(const run::SitePlan&);

}  // namespace longhaul::cli
