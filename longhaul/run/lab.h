#pragma once
// The emulated WAN of a job (docs/lab.md): a network for each site, and the router between them,
// a process of its own that dies with this one. When either is killed, nothing of it is left.
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "longhaul/lab/site_networks.h"
#include "longhaul/net/tcp.h"
#include "longhaul/run/child_processes.h"
#include "longhaul/run/job/job.h"
#include "longhaul/run/lab_figures.h"

namespace longhaul::run {

struct LabOptions {
  std::string program = {};                 // the longhaul that the router is
  std::vector<std::string> arguments = {};  // for it: the job file, --set ...
  std::string file = {};           // where it leaves its figures: lab.json of a run; "": nowhere
  ChildProcesses::Line line = {};  // what it prints, and what there is to know first
};

class Lab {
 public:
  // Whether there can be one of this job, here; an Error says what is missing.
  static Status possible(const Job&);
  // When the router routes. An Error: something that an emulated WAN needs is missing, and how to
  // get it.
  static Result<std::unique_ptr<Lab>> start(const Job&, LabOptions);

  // To be inherited by the processes of a site: ChildSpec::network.
  int network(std::uint32_t site) const { return networks_.at(site).netns.get(); }
  static std::string address(std::uint32_t site) { return lab::site_address(site); }
  // A socket that listens in a site's network, at any port.
  Result<net::ListeningSocket> open_listening_socket(std::uint32_t site) const;
  // Every now and then. False: the router has ended, and with it the network.
  bool runs();
  // Why, then.
  std::string failure() const;
  // Ends the router; what it says of itself, if it came to that.
  std::optional<LabFigures> stop();

 private:
  explicit Lab(LabOptions options);
  Status start_router();
  std::string figures_of_router() const;
  std::optional<LabFigures> read_figures() const;

  LabOptions options_;
  std::vector<lab::SiteNetwork> networks_;
  lab::Descriptor stop_;  // of a pipe: the router ends when it is closed, by us or by our death
  bool ready_ = false;
  std::string figures_line_;  // its figures, if there is no file for them
  ChildProcesses router_;     // dies before the networks are given back
};

// The router itself: what `longhaul lab-router` runs. `tuns`: descriptors by site; `stop`: one that
// can be read when it is to end; `file`: see LabOptions.
Status run_router(const Job&, std::vector<int> tuns, int stop, const std::string& file);
// What befell the last emulated WAN that left its figures in this file, or was to; "" if it ended
// in peace.
std::string last_failure(const std::string& file);

}  // namespace longhaul::run
