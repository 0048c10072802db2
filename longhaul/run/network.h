#pragma once
// The job's network as the simulator's link model that [wan] model names.
#include <memory>

#include "longhaul/core/place.h"
#include "longhaul/run/job/job.h"
#include "longhaul/sim/network.h"

namespace longhaul::run {

// Error: the model does not support the network.
Result<std::unique_ptr<sim::Network>> make_network(const Job&, const Members&);

}  // namespace longhaul::run
