#pragma once
// One node of a job as its own process, over sockets, as run by `longhaul site`.
#include <optional>
#include <string>
#include <vector>

#include "longhaul/run/experiment.h"
#include "longhaul/run/sockets.h"

namespace longhaul::run {

struct SiteOptions {
  Rank rank = 0;
  // Listening addresses of the nodes, by rank: "host:port".
  std::vector<std::string> addresses = {};
  // An inherited listening socket (systemd's rules); -1: none.
  int listening = -1;
  std::string folder = {};  // this node's own; "": nothing is written
  // resume_or_begin: joins a new run, resumes a stopped one, or rejoins a running one, as the other
  // nodes report. A run that has ended in this folder is not changed: its summary is returned.
  ExistingFolder existing = ExistingFolder::refuse;
  // Insists on rejoining a run that has declared this node lost, with only its data. Keeps the
  // files of an earlier incarnation in the folder.
  bool rejoin = false;
  bool insists = true;  // with `rejoin`: waits for a run; false: resumes without one
  // `launch --lab` makes the job's faults. Otherwise a job with faults is refused.
  bool faults_are_made = false;
  Progress::Style progress = Progress::Style::quiet;
  Security security = {};
  std::optional<record::Mode> record = {};  // docs/replay.md; needs a folder
  const OwnLearners* learners = nullptr;    // for [model] kind = "own"; must outlive the call
};

// Trains with the other nodes until all have finished, writes the run folder and returns its
// summary, also after Ctrl-C, a lost peer or a failure (Summary::stop_reason). time_s is real time
// since all nodes were connected; wan_bytes counts the bytes from this node to other sites. Returns
// an Error if the job cannot run here.
Result<Summary> run_site(const Job&, const SiteOptions&);

}  // namespace longhaul::run
