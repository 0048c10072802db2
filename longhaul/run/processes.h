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
  bool insecure = false;  // without TLS; else with keys of this run alone
};

// Starts the nodes by rank. Each gets --site, --addresses, --keys or --insecure, an inherited
// listening socket, and with `lab` its site's network namespace; null: all use this machine's
// loopback. The keys live as long as `children`.
Status start_nodes(ChildProcesses&, const Job&, const NodeCommand&, const Lab* lab);

// Waits until all have ended. Ends them after Ctrl-C, when a node without which the others cannot
// continue has ended, when the remaining ones are stopped, or when the emulated WAN has ended;
// kills those that do not end. True: the emulated WAN has ended.
bool wait_for_nodes(ChildProcesses&, Lab* lab);

// Whether such an end of one node ends all: it could not start, or has a bug.
bool ends_all(const ChildExit&);

}  // namespace longhaul::run
