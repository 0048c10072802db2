#pragma once
// The faults of a job ([[fault]]) in an emulated WAN: its router cuts, its launcher kills, stops
// and starts the processes of a site. docs/lab.md says where this differs from the simulator.
#include <cstdint>
#include <string>
#include <vector>

#include "longhaul/core/shared_members.h"
#include "longhaul/lab/shaper.h"
#include "longhaul/run/job/job.h"

namespace longhaul::run {

// For the router; times since the first packet between sites.
std::vector<lab::Change> cuts_of(const Job&);

// What befalls processes, in order of time since the beginning of the run.
class ProcessFaults {
 public:
  struct Act {
    enum class What : std::uint8_t {
      kills,    // kill -9
      stops,    // SIGSTOP
      goes_on,  // SIGCONT
      starts    // again, if it has ended
    };
    Time at{0};
    What what{};
    std::string site;
    std::vector<Rank> ranks;  // the nodes of the site
  };
  explicit ProcessFaults(const Job&);

  // Those up to `now` that it has not returned before.
  std::vector<Act> due(Time now);
  bool empty() const { return acts_.empty(); }
  // Some process is still to be started again.
  bool will_start() const;

 private:
  std::vector<Act> acts_;
  std::size_t next_ = 0;
};

}  // namespace longhaul::run
