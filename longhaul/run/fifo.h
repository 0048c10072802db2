#pragma once
// The job's network as the link model of FIFO queues runs it.
#include "longhaul/core/place.h"
#include "longhaul/run/job/job.h"
#include "longhaul/sim/fifo_network.h"

namespace longhaul::run {

// What FIFO queues cannot do (links shared by pairs, rates that change) is an Error, never ignored.
// All connections of a pair share one queue, as fast as they are together.
Result<sim::FifoConfig> fifo_config(const Job&, const Members&);

}  // namespace longhaul::run
