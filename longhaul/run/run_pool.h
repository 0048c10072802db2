#pragma once
// Simulated runs as child processes, several at a time: each has its own memory and run folder, so
// that one that fails takes no other with it. Used by one thread, beside which no other holds a
// lock (ChildSpec::instead).
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "longhaul/run/child_processes.h"
#include "longhaul/run/progress.h"

namespace longhaul::run {

struct PoolRun {
  std::string label;                   // for progress: "fedavg-ring"
  std::string job;                     // its job file
  std::string folder;                  // its run folder
  bool resume = false;                 // continues the run in the folder, which must hold one
  bool force = false;                  // replaces a run in the folder
  std::optional<double> until_s = {};  // virtual time at which it is cut
};

struct PoolEnd {
  bool started = false;
  ChildExit exit = {};
  std::string message = {};  // the last error line of a run that failed; "": none
  // The first traceback of a loop in Python that failed, at most kMaxTrace characters; "": none.
  std::string trace = {};
  static constexpr std::size_t kMaxTrace = 16 * 1024;
};

struct PoolOptions {
  // Carries out a command line, "simulate" first, and returns the exit code. It runs in a copy of
  // this process, which need not load libtorch and libraries again for each run. Empty: each run
  // is a process of own_program().
  std::function<int(const std::vector<std::string>&)> simulate;
  unsigned at_once = 1;  // processes
  unsigned threads = 0;  // of each; 0: the cores, divided among the processes
  Progress::Style progress = Progress::Style::quiet;
  std::size_t done_before = 0;  // runs that were finished already: for "7 of 20"
  // Called between events; true ends the runs under way, as Ctrl-C does. May be empty.
  std::function<bool()> stop = {};
};

// Runs them in order until all have ended. After Ctrl-C, or when stop() says so, those under way
// write a checkpoint and end, and the others are not started. Ends: one a run, in the same order.
std::vector<PoolEnd> run_all(const std::vector<PoolRun>&, const PoolOptions&);

// The words that start this program again, its file first. Error: /proc is not there.
Result<std::vector<std::string>> own_program();
// A program that embeds ours says which start it: {"/usr/bin/python3", "train.py"}. Before threads.
void set_own_program(std::vector<std::string>);

}  // namespace longhaul::run
