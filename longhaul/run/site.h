#pragma once
// One node of a job as a process of its own, over sockets: what `longhaul site` runs.
#include <optional>
#include <string>
#include <vector>

#include "longhaul/run/experiment.h"
#include "longhaul/run/sockets.h"

namespace longhaul::run {

struct SiteOptions {
  Rank rank = 0;
  // Where the nodes listen, by rank: "host:port".
  std::vector<std::string> addresses = {};
  // An inherited listening socket (systemd's rules); -1: none.
  int listening = -1;
  std::string folder = {};  // this node's own; "" writes nothing
  // resume_or_begin: joins a new run, resumes a stopped one, rejoins one that goes on, as the
  // others say. A run that is over in this folder is not touched: its summary is returned.
  ExistingFolder existing = ExistingFolder::refuse;
  // Insists on rejoining a run that has declared this node lost, with only its data; keeps what an
  // earlier incarnation wrote in the folder.
  bool rejoin = false;
  bool insists = true;  // with `rejoin`: waits for a run; false: resumes if there is none
  // The job's faults are somebody else's: of `launch --lab`. Otherwise a job with faults is
  // refused.
  bool faults_are_made = false;
  Progress::Style progress = Progress::Style::quiet;
  Security security = {};
  std::optional<record::Mode> record = {};  // docs/replay.md; needs a folder
  const OwnLearners* learners = nullptr;    // for [model] kind = "own"; outlives the call
};

// Trains with the other nodes until all have finished, writes the run folder and returns its
// summary, also after Ctrl-C, a lost peer or a failure (Summary::stop_reason). time_s is real time
// since all nodes were connected; wan_bytes is what this node sent to other sites. Error: the job
// cannot run here.
Result<Summary> run_site(const Job&, const SiteOptions&);

}  // namespace longhaul::run
