#pragma once
// A doctor for each site of a job (docs/doctor.md): what `longhaul doctor` runs.
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
  std::uint32_t site = 0;                   // index: which one this is
  std::vector<std::string> addresses = {};  // of all sites; empty: [[site]] address
  int listening = -1;                       // an inherited socket to listen at; -1: the own address
  std::string folder = {};                  // of the run to come: is there room?
  std::string release = {};                 // of this program
  Security security = {};
  doctor::MeasurementPlan plan = {};
  Time arrival_timeout = std::chrono::seconds(30);
  bool one_by_one = false;
  std::function<void(const std::string&)> on_progress = {};  // progress
};

// At the first site: measures everything and returns the report. Ctrl-C ends it early.
Result<doctor::Report> run_doctor_coordinator(const Job&, const DoctorOptions&);
// At another site: serves the first site until it has finished. Error: it did not connect.
Status run_doctor_participant(const Job&, const DoctorOptions&);
// "tokyo" -> its index. An Error speaks of --site.
Result<std::uint32_t> find_site(const Job&, const std::string& name);

struct DoctorsOptions {
  std::vector<std::string> program = {};    // the words that start what each process is
  std::vector<std::string> arguments = {};  // for every `longhaul doctor`
  std::vector<std::string> network = {};    // of those, what the router needs: JOB, --set, --wan
  bool lab = false;                         // in the emulated WAN; else on the loopback
  bool insecure = false;                    // without TLS; else with keys of this run alone
  ChildProcesses::Line line = {};           // what they print
};
// All sites as processes of this machine. Returns the exit code of the first site's process, which
// prints the report; the others end with it.
Result<int> launch_doctors(const Job&, const DoctorsOptions&);

}  // namespace longhaul::run
