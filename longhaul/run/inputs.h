#pragma once
// What a site has read that all sites must have alike; their hellos compare it (net/hello.h), so
// that sites with other files do not begin a run together.
#include <vector>

#include "longhaul/net/hello.h"
#include "longhaul/run/workload.h"

namespace longhaul::run {

// Of a node with a learner, before its first step; of one without, the data alone. Data that are
// made from a seed are not among them: the job says the same of them.
std::vector<net::SharedInput> shared_inputs(const Workload&, Learner*);

}  // namespace longhaul::run
