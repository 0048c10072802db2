#pragma once
// At which rate each node sends bulk to each other, where flows share plain queues: as the
// overlay's plan divides the links by the rates that the job file says. So connections neither fill
// the queues nor take more than their share, and acknowledgements do not wait (docs/deploy.md).
#include <map>
#include <utility>

#include "longhaul/run/job/job.h"

namespace longhaul::run {

// Payload bytes per second, by (from, to). Empty unless [net] pacing = "plan", [wan] queue =
// "drop_tail", each site is one node, and the strategy's vectors go by a plan from given rates.
// Pairs of which nothing is planned are missing: nothing limits them.
std::map<std::pair<Rank, Rank>, double> planned_pacing(const Job&);

}  // namespace longhaul::run
