#pragma once
// What `longhaul explain JOB` prints of selmcast.
#include "longhaul/core/explanation.h"
#include "longhaul/sync/selmcast/config.h"

namespace longhaul::sync::selmcast {

// The plan of the first round in lock step, from `PlanConfig::network`, and how it follows.
Explanation explain_plan(const Config&, const PlanConfig&, const Place&);

}  // namespace longhaul::sync::selmcast
