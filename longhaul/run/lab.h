#pragma once
// The emulated WAN of a job (docs/lab.md): a network namespace for each site, and the router
// between them, a child process that dies with this one. When either is killed, nothing is left
// behind.
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
  std::string file = {};  // where the router writes its counts: lab.json of a run; "": nowhere
  ChildProcesses::Line line = {};  // the router's output and warnings
};

class Lab {
 public:
  // Whether this machine can emulate the job's WAN. Error: what is missing.
  static Status possible(const Job&);
  // Returns when the router runs. Error: what is missing, and how to get it.
  static Result<std::unique_ptr<Lab>> start(const Job&, LabOptions);

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
