#pragma once
// The network of a job: as numbers, and as what the simulator runs.
#include <memory>

#include "longhaul/core/place.h"
#include "longhaul/flow/wan.h"
#include "longhaul/run/job/job.h"
#include "longhaul/sim/network.h"

namespace longhaul::run {

// Sites in the order of the job's, with rate_scale applied.
flow::Wan wan_of(const Job&);

// The link model that [wan] model names.
std::unique_ptr<sim::Network> make_network(const Job&, const Members&);

// The index of a site that check_job knows.
std::uint32_t site_index(const Job&, const std::string& name);

}  // namespace longhaul::run
