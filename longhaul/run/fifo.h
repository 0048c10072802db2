#pragma once
// Converts the job's network for the FIFO link model.
#include "longhaul/core/place.h"
#include "longhaul/run/job/job.h"
#include "longhaul/sim/fifo_network.h"

namespace longhaul::run {

// Error: what FIFO queues cannot model (links shared by pairs, traces). All connections of a pair
// share one queue with their total rate.
Result<sim::FifoConfig> fifo_config(const Job&, const Members&);

}  // namespace longhaul::run
