#pragma once
// The nodes of a job by name, and where they listen.
#include <string>
#include <vector>

#include "longhaul/run/job/job.h"

namespace longhaul::run {

// "virginia", or "virginia/1" for the second node of that site.
std::string node_name(const Member&);
// Of "virginia/1"; an Error speaks of --site.
Result<Rank> find_node(const Job&, const std::string& name);
// Where a node writes, beside the others of its run: RUN/virginia, RUN/virginia-1.
std::string node_folder(const std::string& run, const Member&);
// "host:port" of all nodes, by rank, as [[site]] address says: nodes of one site listen on
// consecutive ports. An Error: a site has none, or its ports are over the end.
Result<std::vector<std::string>> addresses_of(const Job&);

}  // namespace longhaul::run
