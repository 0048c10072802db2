#pragma once
// A doctor for each site of a job (docs/doctor.md), as run by `longhaul doctor`.
#include <functional>
#include <string>
#include <vector>

#include "longhaul/doctor/coordinate.h"
#include "longhaul/doctor/report.h"
#include "longhaul/run/child_processes.h"
#include "longhaul/run/job/job.h"
#include "longhaul/run/sockets.h"

namespace longhaul::run {

struct DoctorOptions {
  std::uint32_t site = 0;                   // index of this site
  std::vector<std::string> addresses = {};  // one per site; empty: [[site]] address
  int listening = -1;                       // inherited listening socket; -1: the own address
  std::string folder = {};                  // folder of the future run, to check the free space
  std::string release = {};                 // release of this program
  Security security = {};
  doctor::MeasurementPlan plan = {};
  Time arrival_timeout = std::chrono::seconds(30);
  bool one_by_one = false;
  std::function<void(const std::string&)> on_progress = {};
};

// Runs at the first site: measures everything and returns the report. Ctrl-C ends it early.
Result<doctor::Report> run_doctor_coordinator(const Job&, const DoctorOptions&);
// Runs at another site: serves the first site until it has finished. Returns an Error if the first
// site did not connect.
Status run_doctor_participant(const Job&, const DoctorOptions&);
// Returns the index of a site by name. The Error names --site.
Result<std::uint32_t> find_site(const Job&, const std::string& name);

struct DoctorsOptions {
  std::vector<std::string> program = {};    // command that starts each process
  std::vector<std::string> arguments = {};  // for every `longhaul doctor`
  std::vector<std::string> network = {};    // those that the router needs: JOB, --set, --wan
  bool lab = false;                         // in the emulated WAN; else on loopback
  bool insecure = false;                    // without TLS; else with keys of this run only
  ChildProcesses::Line line = {};           // receives the output of the processes
};
// Starts all sites as local processes. Returns the exit code of the first site's process, which
// prints the report; the others end with it.
Result<int> launch_doctors(const Job&, const DoctorsOptions&);

}  // namespace longhaul::run
