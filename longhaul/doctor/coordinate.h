#pragma once
// The two roles of the doctor. The coordinator, at the first site, has all pairs measured, slot by
// slot, and collects the results; participants follow its requests. The coordinator dials all
// others, and of two sites the lower dials, as in training, so that firewalls act in the same way.
#include <functional>

#include "longhaul/doctor/handshake.h"
#include "longhaul/doctor/report.h"
#include "longhaul/doctor/schedule.h"

namespace longhaul::doctor {

struct CoordinatorOptions {
  MeasurementPlan plan = {};
  Time arrival_timeout = std::chrono::seconds(30);  // for a site to connect
  bool one_by_one = false;
  MachineFacts facts = {};  // of this machine
  std::function<void(const std::string&)> on_progress =
      {};  // progress, a line at a time; from this thread
};

// At the first site. Fills in `sites` and `pairs` of the report. All present sites try to reach a
// site that did not connect. Starts threads, which end before it returns.
void run_coordinator(const LocalSite&, const CoordinatorOptions&, Report&);
// Approximate duration in seconds if all sites connect.
double expected_seconds(const MeasurementPlan&, std::size_t sites, bool one_by_one);

// The site that measures a pair: the lower if it is present, else the higher, else none.
std::optional<Pair> measuring_site(Pair, const std::vector<bool>& present);

struct ParticipantOptions {
  Time arrival_timeout = std::chrono::seconds(30);  // for the first site to connect
  MachineFacts facts = {};
  std::uint16_t port = 0;  // where the sockets listen
  std::function<void(const std::string&)> on_progress =
      {};  // from any of its threads, one at a time
};

// At the other sites, until the coordinator's bye. The sockets listen and do not block. Error: the
// first site did not connect, or disconnected. Strangers are refused, a few at a time.
Status run_participant(const LocalSite&, std::span<const int> listening_sockets,
                       const ParticipantOptions&);

// Facts about this machine, from its kernel. `folder`: where the run will write; it need not exist
// yet. `own`: the address that others know; `listens`: where this site does.
MachineFacts local_facts(const std::string& folder, const net::Address& own,
                         const net::Address& listens);

}  // namespace longhaul::doctor
