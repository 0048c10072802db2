#pragma once
// `longhaul perf`: the time of one all-reduce or broadcast over a job's overlay, in the simulator,
// over an emulated WAN, or between real sites, compared with the network's lower bound.
// docs/perf.md describes the measurement.
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "longhaul/perf/measurement.h"
#include "longhaul/run/child_processes.h"
#include "longhaul/run/job/job.h"
#include "longhaul/run/sockets.h"
#include "longhaul/run/summary.h"

namespace longhaul::run {

struct PerfTask {
  double mbytes = 25;  // size of the vector: 4 bytes a value, for any codec
  Round repeat = 3;    // timed laps, after one warm-up lap
  bool broadcast = false;
  std::string root = {};  // broadcasting site; "": the first
};

// The place of a measurement. The output has the same names.
enum class PerfPlace : std::uint8_t { simulator, lab, local, site };
std::string_view to_string(PerfPlace);

struct PerfResult {
  PerfPlace place = PerfPlace::simulator;
  std::vector<double> times_s;        // in order, without the warm-up
  std::vector<double> starts_s = {};  // start times of these laps, by the clock of rank 0
  double warm_up_s = 0;
  std::uint64_t wan_bytes = 0;         // from all nodes to other sites, mean of the laps
  std::string last;                    // last site to end in the slowest lap
  std::optional<LabFigures> lab = {};  // the router's counts
};

// Figures derived from the times; absent where they are undefined.
struct PerfFigures {
  double time_s = 0, min_s = 0, max_s = 0;       // median, fastest, slowest
  std::optional<double> goodput_mbps, bus_mbps;  // bus bandwidth as nccl-tests define it
  // Lower bound for every overlay, with delays; time_s over it; and the same for bandwidth only.
  std::optional<double> bound_s, ratio, bandwidth_s;
};
PerfFigures figures_of(const Job&, const PerfTask&, const PerfResult&);
nlohmann::ordered_json to_json(const Job&, const PerfTask&, const PerfResult&);

// Returns an Error if the job or its overlay cannot do the task; it names those that can.
Status check_perf(const Job&, const PerfTask&, bool sockets);

// Called after each lap; the warm-up is lap 0. May be empty.
using PerfProgress = std::function<void(Round lap, double seconds)>;

// The next functions take a task that check_perf() accepts. An Error of kind invalid_argument: bad
// usage; others: a failure, or (unavailable) an interruption. Ctrl-C ends them.

// Measures in virtual time, with vectors without numbers.
Result<PerfResult> perf_simulated(const Job&, const PerfTask&, const PerfProgress&);

// The node of a rank, with the other nodes over sockets.
struct PerfSite {
  Rank rank = 0;
  std::vector<std::string> addresses = {};  // by rank, "host:port"
  int listening = -1;                       // an inherited listening socket; -1: none
  Security security = {};
  std::function<void(const std::string&)> note = {};  // for the user, one line
};
// Measures as one node. Returns nothing at other ranks than 0, which only know their own times.
Result<std::optional<PerfResult>> perf_site(const Job&, const PerfTask&, const PerfSite&,
                                            const PerfProgress&);

// The nodes as local processes.
struct PerfLaunch {
  std::vector<std::string> program = {};    // command that starts each process
  std::vector<std::string> arguments = {};  // job file and settings, for nodes and router
  std::vector<std::string> task = {};       // arguments for the nodes only: the PerfTask
  bool lab = false;                         // over an emulated WAN; else over loopback
  bool insecure = false;                    // without TLS; else with keys of this run only
  ChildProcesses::Line line = {};           // receives their output, without the result
};
struct PerfLaunchResult {
  std::optional<PerfResult> result;  // absent: nodes failed and printed the reason
  int exit_code = 0;
};
Result<PerfLaunchResult> perf_launched(const Job&, const PerfLaunch&);

}  // namespace longhaul::run
