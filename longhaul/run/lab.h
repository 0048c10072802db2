#pragma once
// The emulated WAN of a job (docs/lab.md): a network namespace for each site, and the router
// between them, a child process that dies with this one. When either is killed, nothing is left
// behind.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "longhaul/core/shared_members.h"
#include "longhaul/lab/site_networks.h"
#include "longhaul/net/tcp.h"
#include "longhaul/run/child_processes.h"
#include "longhaul/run/job/job.h"
#include "longhaul/run/job/site_index.h"
#include "longhaul/run/summary.h"
#include "longhaul/sim/shaper.h"

namespace longhaul::run {

// The faults of a job ([[fault]]) in an emulated WAN: its router cuts, its launcher kills, stops
// and starts the processes of a site. docs/lab.md says where this differs from the simulator.
// For the router; times since the first packet between sites.
inline std::vector<sim::Change> cuts_of(const Job& job) {
  using What = sim::Change::What;
  std::vector<sim::Change> changes;
  const SiteIndex index(job.sites);
  for (const FaultTable& fault : job.faults) {
    if (fault.kind != "cut") continue;
    const std::uint32_t site = index.at(fault.site);
    const Time begin = from_seconds(fault.at_s);
    const auto cut = [&](std::uint32_t from, std::uint32_t to) {
      changes.push_back({.at = begin, .what = What::cut, .from = from, .to = to});
      if (fault.for_s)
        changes.push_back({.at = begin + from_seconds(*fault.for_s),
                           .what = What::healed,
                           .from = from,
                           .to = to});
    };
    for (std::uint32_t other = 0; other < job.sites.size(); ++other) {
      if (other == site || (!fault.to.empty() && other != index.at(fault.to))) continue;
      cut(site, other);
      if (!fault.one_way) cut(other, site);
    }
  }
  return changes;
}

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
  explicit ProcessFaults(const Job& job) {
    using What = Act::What;
    const Members members = job.members();
    for (const FaultTable& fault : job.faults) {
      Act act;
      act.site = fault.site;
      for (Rank rank = 0; rank < members.size(); ++rank)
        if (members[rank].site == fault.site) act.ranks.push_back(rank);
      const auto add = [&](What what, double at_s) {
        act.what = what;
        act.at = from_seconds(at_s);
        acts_.push_back(act);
      };
      if (fault.kind == "crash") add(What::kills, fault.at_s);
      if (fault.kind == "pause") {
        add(What::stops, fault.at_s);
        add(What::goes_on, fault.at_s + *fault.for_s);
      }
      if (fault.restart_s) add(What::starts, fault.at_s + *fault.restart_s);
    }
    std::stable_sort(acts_.begin(), acts_.end(),
                     [](const Act& a, const Act& b) { return a.at < b.at; });
  }

  // Those up to `now` that it has not returned before.
  std::vector<Act> due(Time now) {
    std::vector<Act> acts;
    for (; next_ < acts_.size() && acts_[next_].at <= now; ++next_) acts.push_back(acts_[next_]);
    return acts;
  }

  bool empty() const { return acts_.empty(); }
  // Some process is still to be started again.
  bool will_start() const {
    return std::any_of(acts_.begin() + std::ptrdiff_t(next_), acts_.end(),
                       [](const Act& act) { return act.what == Act::What::starts; });
  }

 private:
  std::vector<Act> acts_;
  std::size_t next_ = 0;
};

struct LabOptions {
  std::vector<std::string> program = {};    // the words that start what the router is
  std::vector<std::string> arguments = {};  // for it: the job file, --set ...
  std::string file = {};  // where the router writes its counts: lab.json of a run; "": nowhere
  ChildProcesses::Line line = {};  // the router's output and warnings
};

class Lab {
 public:
  // Whether this machine can emulate the job's WAN. Error: what is missing.
  static Status possible(const Job&);
  // Returns when the router runs. Error: what is missing, and how to get it.
  static Result<std::unique_ptr<Lab>> start(const Job&, LabOptions);
  // The same if it is `wanted`, else null.
  static Result<std::unique_ptr<Lab>> start_if(bool wanted, const Job& job, LabOptions options) {
    if (!wanted) return std::unique_ptr<Lab>{};
    return start(job, std::move(options));
  }

  // For the processes of a site: ChildSpec::network.
  int network(std::uint32_t site) const { return networks_.at(site).netns.get(); }
  static std::string address(std::uint32_t site) { return lab::site_address(site); }
  // A listening socket in a site's network, on any free port.
  Result<net::ListeningSocket> open_listening_socket(std::uint32_t site) const;
  // To be polled. False: the router has ended, and the network with it.
  bool runs();
  // The reason, after runs() returned false.
  std::string failure() const;
  // Ends the router; its counts, if it wrote any.
  std::optional<LabFigures> stop();

 private:
  explicit Lab(LabOptions options);
  Status start_router();
  std::string figures_of_router() const;
  std::optional<LabFigures> read_figures() const;

  LabOptions options_;
  std::vector<lab::SiteNetwork> networks_;
  lab::Descriptor
      stop_;  // end of a pipe: the router ends when it is closed, also by the death of this process
  bool ready_ = false;
  std::string figures_line_;  // the router's counts, if there is no file
  ChildProcesses router_;     // must end before networks_
};

// The router itself: what `longhaul lab-router` runs. `tuns`: descriptors by site; `stop`: one that
// can be read when it is to end; `file`: see LabOptions.
Status run_router(const Job&, std::vector<int> tuns, int stop, const std::string& file);
// Why the last emulated WAN with this file failed; "" if it ended normally.
std::string last_failure(const std::string& file);

}  // namespace longhaul::run
