#pragma once
// The socket settings of a job, for `longhaul site` and `longhaul perf`.
#include <cstdint>
#include <string>
#include <vector>

#include "longhaul/net/peers.h"
#include "longhaul/run/job/job.h"

namespace longhaul::run {

// Parses "host:port" of all nodes, by rank. Error: not one for each node, an invalid one, or one of
// another machine without `insecure`.
Result<std::vector<net::Address>> parse_addresses(const Job&, const std::vector<std::string>&,
                                                  bool insecure);
// Error: the job's chunks exceed the largest frame, or it has faults, which only the simulator has.
Status fits_frames(const Job&);
// `listening`: an inherited socket, or -1. `hash`: what all nodes must agree on; refusals name the
// job's first key that differs.
net::PeersConfig peers_config(const Job&, std::vector<net::Address>, int listening,
                              std::uint64_t hash);

}  // namespace longhaul::run
