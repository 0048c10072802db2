#pragma once
// The network of a job as what the simulator runs: the link model that [wan] model names.
#include <memory>

#include "longhaul/core/place.h"
#include "longhaul/run/job/job.h"
#include "longhaul/sim/network.h"

namespace longhaul::run {

// An Error: the model cannot do what the network is.
Result<std::unique_ptr<sim::Network>> make_network(const Job&, const Members&);

}  // namespace longhaul::run
