#pragma once
// All nodes of a job as processes of this machine, over loopback or an emulated WAN: what
// `longhaul launch` and `longhaul perf` have in common.
#include <functional>
#include <string>
#include <vector>

#include "longhaul/run/child_processes.h"
#include "longhaul/run/lab.h"

namespace longhaul::run {

struct NodeCommand {
  std::string program = {};                                // the longhaul that each process is
  std::string subcommand = {};                             // that runs one node
  std::vector<std::string> arguments = {};                 // for all: the job file, --set ...
  std::function<std::vector<std::string>(Rank)> own = {};  // for one node alone; may be empty
};

// Starts them by rank. Each is told --site, --addresses, has a socket that listens, and, with
// `lab`, lives in its site's network; null: all are on this machine's loopback.
Status start_nodes(ChildProcesses&, const Job&, const NodeCommand&, const Lab* lab);

// Until all have ended. Ends them itself, and kills those that do not end, after Ctrl-C, when a
// node has ended that the others cannot do without, when those left are stopped, or when the
// emulated WAN is gone. True: it has.
bool wait_for_nodes(ChildProcesses&, Lab* lab);

// The nodes cannot go on without one that ended so: it never began, or has a bug.
bool ends_all(const ChildExit&);

}  // namespace longhaul::run
