#pragma once
// One node of a job as a process of its own, over sockets: what `longhaul site` runs.
#include <optional>
#include <string>
#include <vector>

#include "longhaul/run/experiment.h"

namespace longhaul::run {

struct SiteOptions {
  Rank rank = 0;
  // Where the nodes listen, by rank: "host:port".
  std::vector<std::string> addresses = {};
  // A socket that listens there already (inherited, as systemd hands them over); -1: none.
  int listening = -1;
  std::string folder = {};  // this node's own; "" writes nothing
  ExistingFolder existing = ExistingFolder::refuse;
  // Comes back to a run that has declared this node lost, with nothing but its data; what an
  // earlier incarnation wrote in the folder is kept.
  bool rejoin = false;
  Progress::Style progress = Progress::Style::quiet;
  // Frames are neither secret nor signed: whoever can reach or read the network can read and
  // change the model. Without this, addresses must be loopback ones.
  bool insecure = false;
  std::optional<record::Mode> record = {};  // docs/replay.md; needs a folder
  const OwnLearners* learners = nullptr;    // for [model] kind = "own"; outlives the call
};

// Trains with the other nodes until all are done, writes the run folder, answers with its summary:
// also when Ctrl-C, a lost peer or a failure ended it early (Summary::stop_reason). time_s is real
// time since all nodes had met; wan_bytes what this node sent to other sites. An Error: the job
// cannot be run here.
Result<Summary> run_site(const Job&, const SiteOptions&);

}  // namespace longhaul::run
