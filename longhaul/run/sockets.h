#pragma once
// How the nodes of a job reach one another over sockets, as its file has it: what `longhaul site`
// and `longhaul perf` have in common.
#include <cstdint>
#include <string>
#include <vector>

#include "longhaul/net/peers.h"
#include "longhaul/run/job/job.h"

namespace longhaul::run {

// Where the nodes listen, by rank, of "host:port". An Error: not one for each node; none; or one of
// another machine although `insecure` was not said.
Result<std::vector<net::Address>> parse_addresses(const Job&, const std::vector<std::string>&,
                                                  bool insecure);
// An Error: chunks of the job are larger than a frame may be.
Status fits_frames(const Job&);
// `listening`: an inherited socket, or -1. `hash`: what all nodes must agree on.
net::PeersConfig peers_config(const Job&, std::vector<net::Address>, int listening,
                              std::uint64_t hash);

}  // namespace longhaul::run
