#pragma once
// The network of a job, as [wan], [[wan.link]] and [[site]] describe it.
#include <string>

#include "longhaul/flow/wan.h"
#include "longhaul/run/job/job.h"

namespace longhaul::run {

// Sites in the order of the job; rates with rate_scale.
flow::Wan wan_of(const Job&);
// CHECKs that there is a site of this name.
std::uint32_t site_index(const Job&, const std::string& name);

}  // namespace longhaul::run
