#pragma once
// The nodes of a job by name, and where they listen.
#include <optional>
#include <string>
#include <vector>

#include "longhaul/net/tcp.h"
#include "longhaul/run/job/job.h"

namespace longhaul::run {

// "virginia", or "virginia/1" for the second node of that site.
std::string node_name(const Member&);
// The rank of "virginia/1". Error: an unknown name, as given to --site.
Result<Rank> find_node(const Job&, const std::string& name);
// A node's folder within its run: RUN/virginia, RUN/virginia-1.
std::string node_folder(const std::string& run, const Member&);
// Where the node listens, as [[site]] bind says; nothing: see net::listening_address(). Error: a
// bad one.
Result<std::optional<net::Address>> bind_of(const Job&, Rank);
// "host:port" of all nodes, by rank, as [[site]] address says: nodes of one site listen on
// consecutive ports. Error: a site has none, or its ports exceed 65535.
Result<std::vector<std::string>> addresses_of(const Job&);

}  // namespace longhaul::run
