#pragma once
// The job's network as the simulator's link model that [wan] model names.
#include <memory>

#include "longhaul/core/place.h"
#include "longhaul/run/job/job.h"
#include "longhaul/sim/compute_time.h"
#include "longhaul/sim/fifo_network.h"
#include "longhaul/sim/network.h"

namespace longhaul::run {

// Error: what FIFO queues cannot model (links shared by pairs, traces). All connections of a pair
// share one queue with their total rate.
Result<sim::FifoConfig> fifo_config(const Job&, const Members&);

// Error: the model does not support the network.
Result<std::unique_ptr<sim::Network>> make_network(const Job&, const Members&);

std::unique_ptr<sim::ComputeTime> step_times(const Job&, const Members&);

}  // namespace longhaul::run
