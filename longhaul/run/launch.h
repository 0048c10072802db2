#pragma once
// All nodes of a job as processes of this machine, over loopback or over an emulated WAN. Used by
// `longhaul launch`.
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "longhaul/run/child_processes.h"
#include "longhaul/run/experiment.h"

namespace longhaul::run {

struct LaunchOptions {
  std::vector<std::string> program = {};    // command that starts each process
  std::vector<std::string> arguments = {};  // for every `longhaul site`: the job file, --set ...
  std::string folder = {};  // folder of the run; node NAME writes to its sub-folder NAME
  ExistingFolder existing = ExistingFolder::refuse;
  ChildProcesses::Line line = {};  // called for each line that a process prints
  bool lab = false;                // over an emulated WAN: run/lab.h
  bool insecure = false;           // without TLS; else with keys of this run only
  unsigned max_restarts = 3;       // maximum restarts of a node that was killed or lost the others
  // Runs `longhaul site ...` in a copy of this process, which has loaded libtorch once for all
  // nodes: NodeCommand::run_in_copy. Empty: `program` is started for each node.
  std::function<int(const std::vector<std::string>&)> run_in_copy = {};
};

struct LaunchResult {
  Summary summary;
  int exit_code = 0;
};

// Starts all nodes, waits for them, and writes the run folder's summary, metrics and model. In the
// summary, bytes are sums over the nodes, times are those of the slowest node, and utilisation is
// the mean. The other values come from the first worker that finished.
//
// A node that fails at once (a bad job, an internal error) ends all nodes. A node that was killed,
// or has lost the others, is restarted and rejoins if the strategy allows it. Otherwise the others
// continue or end as the strategy declares. If all nodes have ended in this way, all are restarted
// and resume. A node whose own code ended its process (a crash, os._exit() in a loop) and that was
// not back at the end makes the exit code 1.
//
// A stop signal ends all nodes, see EndPatience. Summary::failure names the failed nodes, one per
// line. Resuming a finished run returns its summary.
Result<LaunchResult> launch(const Job&, const LaunchOptions&);

// Returns 130 after Ctrl-C. Otherwise returns the code of the first node that could not run the job
// (2) or has a bug (4). Without such a node, returns the highest code of the nodes that finished; 3
// if all were lost or killed.
int exit_code(std::span<const ChildExit> ends, bool interrupted);

}  // namespace longhaul::run
