#pragma once
// The two parts of an examination: the first site has all pairs measured, slot by slot, and gets
// the results; the others do as it says. The first site dials all others, and of two sites the
// lower dials, as in training: what a firewall forbids there it forbids here.
#include <functional>

#include "longhaul/doctor/greeting.h"
#include "longhaul/doctor/report.h"
#include "longhaul/doctor/schedule.h"

namespace longhaul::doctor {

struct ExamineOptions {
  Plan plan = {};
  Time patience = std::chrono::seconds(30);  // for a site to come
  bool one_by_one = false;
  Facts facts = {};  // of this machine
  std::function<void(const std::string&)> tell =
      {};  // progress, a line at a time; from this thread
};

// At the first site. Fills in `sites` and `pairs`; a site that does not come is measured by nobody,
// but all that came try to reach it. Starts threads, which end before it does.
void examine(const Self&, const ExamineOptions&, Report&);
// How long it takes if all sites come, in seconds, about.
double expected_seconds(const Plan&, std::size_t sites, bool one_by_one);

// Who measures a pair: the lower if its doctor came, else the higher, else nobody.
std::optional<Pair> asker(Pair, const std::vector<bool>& present);

struct AttendOptions {
  Time patience = std::chrono::seconds(30);  // for the first site to come
  Facts facts = {};
  std::uint16_t port = 0;                             // where `door` listens
  std::function<void(const std::string&)> tell = {};  // from any of its threads, one at a time
};

// At the others, until the first site says goodbye. `door`: a socket that listens. An Error: the
// first site did not come, or went away. Strangers are turned away, a few at a time.
Status attend(const Self&, int door, const AttendOptions&);

}  // namespace longhaul::doctor
