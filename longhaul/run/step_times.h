#pragma once
// Step durations of a job's nodes by [[site]] step_ms, jitter, drift and step_trace: in the
// simulator, and over sockets with [net] pace.
#include <memory>

#include "longhaul/run/job/job.h"
#include "longhaul/sim/compute_time.h"

namespace longhaul::run {

std::unique_ptr<sim::ComputeTime> step_times(const Job&, const Members&);

}  // namespace longhaul::run
