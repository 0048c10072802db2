#pragma once
// All nodes of a job as processes of this machine, over loopback or over an emulated WAN: what
// `longhaul launch` runs.
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "longhaul/run/child_processes.h"
#include "longhaul/run/experiment.h"

namespace longhaul::run {

struct LaunchOptions {
  std::vector<std::string> program = {};    // the words that start what each process is
  std::vector<std::string> arguments = {};  // for every `longhaul site`: the job file, --set ...
  std::string folder = {};                  // of the run; node NAME writes to its sub-folder NAME
  ExistingFolder existing = ExistingFolder::refuse;
  ChildProcesses::Line line = {};  // what the processes print
  bool lab = false;                // over an emulated WAN: run/lab.h
  bool insecure = false;           // without TLS; else with keys of this run alone
  unsigned max_restarts = 3;       // of each node that was killed or lost the others
  // Carries out `longhaul site ...` in a copy of this process, which then loads libtorch once for
  // all nodes: NodeCommand::run_in_copy. Empty: `program` is started for each.
  std::function<int(const std::vector<std::string>&)> run_in_copy = {};
};

// Starts all nodes, waits for them, and writes the run folder's summary, metrics and model. Bytes
// are sums over the nodes, times those of the slowest, utilisation the mean; the rest comes from
// the first worker that finished. A node that fails at once (a bad job, an internal error) ends
// all. One that is killed, or loses the others, is started again and rejoins if the strategy lets
// it; otherwise the others continue or end as the strategy declares, and if all have ended so, all
// are started again and resume. A signal to stop ends all, see EndPatience. Summary::failure names
// the failed nodes, one a line. Resuming a finished run returns its summary.
struct LaunchResult {
  Summary summary;
  int exit_code = 0;
};
Result<LaunchResult> launch(const Job&, const LaunchOptions&);

// 130 after Ctrl-C; else that of the first node that could not run the job at all (2) or has a bug
// (4); else that of those that came to the end; 3 if all were lost or killed.
int exit_code(std::span<const ChildExit> ends, bool interrupted);

}  // namespace longhaul::run
