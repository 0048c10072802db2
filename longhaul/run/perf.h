#pragma once
// `longhaul perf`: the time of one all-reduce or broadcast over a job's overlay, in the simulator,
// over an emulated WAN, or between real sites, compared with the network's lower bound.
// docs/perf.md says how it is measured.
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
  double mbytes = 25;  // of the vector: 4 bytes a value, whatever the job's codec
  Round repeat = 3;    // timed laps, after one warm-up lap
  bool broadcast = false;
  std::string root = {};  // the site that broadcasts; "": the first
};

// Where it was measured. The names are those of the output.
enum class PerfPlace : std::uint8_t { simulator, lab, local, site };
std::string_view to_string(PerfPlace);

struct PerfResult {
  PerfPlace place = PerfPlace::simulator;
  std::vector<double> times_s;        // in their order, without the warm-up's
  std::vector<double> starts_s = {};  // start times of these, by the clock of rank 0
  double warm_up_s = 0;
  std::uint64_t wan_bytes = 0;         // from all nodes to other sites, mean of the laps
  std::string last;                    // site that ended last in the slowest lap
  std::optional<LabFigures> lab = {};  // the router's counts
};

// Figures derived from the times; absent where they are undefined.
struct PerfFigures {
  double time_s = 0, min_s = 0, max_s = 0;       // median, fastest, slowest
  std::optional<double> goodput_mbps, bus_mbps;  // bus bandwidth as nccl-tests define it
  // What no overlay can beat, with delays; time_s over it; and the same of bandwidth alone.
  std::optional<double> bound_s, ratio, bandwidth_s;
};
PerfFigures figures_of(const Job&, const PerfTask&, const PerfResult&);
nlohmann::ordered_json to_json(const Job&, const PerfTask&, const PerfResult&);

// Error: the job or its overlay cannot do the task, and which can. `sockets`: over real sockets.
Status check_perf(const Job&, const PerfTask&, bool sockets);

// After each lap, the warm-up being lap 0; may be empty.
using PerfProgress = std::function<void(Round lap, double seconds)>;

// All that follow take a task that check_perf() lets pass. An Error of kind invalid_argument: bad
// usage; others: it failed on the way, or (unavailable) was interrupted. Ctrl-C ends them.

// In virtual time, with vectors that have no numbers.
Result<PerfResult> perf_simulated(const Job&, const PerfTask&, const PerfProgress&);

// As the node of that rank, with the others over sockets.
struct PerfSite {
  Rank rank = 0;
  std::vector<std::string> addresses = {};  // by rank, "host:port"
  int listening = -1;                       // an inherited listening socket; -1: none
  Security security = {};
  std::function<void(const std::string&)> note = {};  // for the user, one line
};
// Empty at ranks other than 0, which know only their own times.
Result<std::optional<PerfResult>> perf_site(const Job&, const PerfTask&, const PerfSite&,
                                            const PerfProgress&);

// As real processes of this machine.
struct PerfLaunch {
  std::vector<std::string> program = {};    // the words that start what each is
  std::vector<std::string> arguments = {};  // job file and settings, for nodes and router
  std::vector<std::string> task = {};       // words for the nodes alone: the PerfTask
  bool lab = false;                         // over an emulated WAN; else over loopback
  bool insecure = false;                    // without TLS; else with keys of this run alone
  ChildProcesses::Line line = {};           // their output, without the result
};
struct PerfLaunchResult {
  std::optional<PerfResult> result;  // absent: nodes failed and printed why
  int exit_code = 0;
};
Result<PerfLaunchResult> perf_launched(const Job&, const PerfLaunch&);

}  // namespace longhaul::run
