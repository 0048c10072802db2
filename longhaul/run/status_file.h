#pragma once
// RUN/status.json: the current state of a node, and the nodes and data for which it waits.
// `longhaul status` reads it. The only writer is the process that holds the folder; readers see the
// old or the new file.
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "longhaul/base/fields.h"
#include "longhaul/base/result.h"
#include "longhaul/core/types.h"

namespace longhaul::run {

struct NodeStatus {
  std::string site = {};
  Rank rank = 0;
  // meeting: connects to the other nodes; computing, waiting; parting: reports to the other nodes
  // that it is done; simulating; ended.
  std::string state;
  std::string waits_for = {};  // "round 11: parts of rank 2", "lima, oslo (2 of 4)"; "": nothing
  double waited_s = 0;         // real time that it has waited for that
  Round rounds = 0, max_rounds = 0;
  double time_s = 0;  // time of the run
  // Sent to other sites, and time spent computing, since the run began: simulated, of all sites.
  std::uint64_t wan_bytes = 0, wan_messages = 0;
  double computing_s = 0;
  std::uint64_t members = 0, live = 0;
  struct Silent {
    std::string peer;  // "rank 2 (oslo)"
    double silent_s = 0;
    LONGHAUL_FIELDS(peer, silent_s)
  };
  std::vector<Silent> silent =
      {};  // peers that have not been heard for more than a heartbeat or two
  std::string host = {};
  std::int64_t process = 0;
  double written_s = 0;  // Unix time
  LONGHAUL_FIELDS(site, rank, state, waits_for, waited_s, rounds, max_rounds, time_s, wan_bytes,
                  wan_messages, computing_s, members, live, silent, host, process, written_s)
};

// The time for which a node has been waiting for the same thing. One thread.
class WaitClock {
 public:
  // Returns the real time since the last call with another state, round or thing waited for; 0: it
  // waits for nothing.
  double waited_s(const NodeStatus&);

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point since_ = Clock::now();
  std::string what_;
};

// "lima, oslo (2 of 4)": these nodes, of `of` in all; a long list is cut. "": none.
std::string names_text(const std::vector<std::string>& names, std::size_t of);

class StatusFile {
 public:
  explicit StatusFile(std::string folder) : path_(folder + "/status.json") {}
  bool due() const;  // a second has passed since the last write
  // Fills in host, process and written_s. A disk that is full is no reason to end a run: a write
  // that fails is tried again a second later.
  void write(NodeStatus);

 private:
  using Clock = std::chrono::steady_clock;
  const std::string path_;
  Clock::time_point written_{};
};

// Seconds of the Unix clock, as NodeStatus::written_s.
double unix_time();
// The name of this host, as NodeStatus::host; empty if it has none.
std::string host_name();
// Returns the status in this folder; nullopt if none can be read.
std::optional<NodeStatus> read_status(const std::string& folder);
// Returns the statuses of a run: its own file, or the files of the folders in it, by rank. Returns
// an Error if there is none.
Result<std::vector<NodeStatus>> read_statuses(const std::string& run);

}  // namespace longhaul::run
