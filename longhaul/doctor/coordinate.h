#pragma once
// The two parts of an examination: the first site has all pairs measured, slot by slot, and gets
// the results; the others do as it says. The first site dials all others, and of two sites the
// lower dials, as in training: what a firewall forbids there it forbids here.
#include <functional>

#include "longhaul/doctor/handshake.h"
#include "longhaul/doctor/report.h"
#include "longhaul/doctor/schedule.h"

namespace longhaul::doctor {

struct CoordinatorOptions {
  MeasurementPlan plan = {};
  Time arrival_timeout = std::chrono::seconds(30);  // for a site to come
  bool one_by_one = false;
  MachineFacts facts = {};  // of this machine
  std::function<void(const std::string&)> on_progress =
      {};  // progress, a line at a time; from this thread
};

// At the first site. Fills in `sites` and `pairs`; a site that does not come is measured by nobody,
// but all that came try to reach it. Starts threads, which end before it does.
void run_coordinator(const LocalSite&, const CoordinatorOptions&, Report&);
// How long it takes if all sites come, in seconds, about.
double expected_seconds(const MeasurementPlan&, std::size_t sites, bool one_by_one);

// Who measures a pair: the lower if its doctor came, else the higher, else nobody.
std::optional<Pair> measuring_site(Pair, const std::vector<bool>& present);

struct ParticipantOptions {
  Time arrival_timeout = std::chrono::seconds(30);  // for the first site to come
  MachineFacts facts = {};
  std::uint16_t port = 0;  // where `listening_socket` listens
  std::function<void(const std::string&)> on_progress =
      {};  // from any of its threads, one at a time
};

// At the others, until the first site says goodbye. `listening_socket`: a socket that listens. An
// Error: the first site did not come, or went away. Strangers are turned away, a few at a time.
Status run_participant(const LocalSite&, int listening_socket, const ParticipantOptions&);

}  // namespace longhaul::doctor
