#pragma once
// Replays the recordings of one node of a run folder, without network.
#include <functional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "longhaul/record/entries.h"
#include "longhaul/record/replay.h"
#include "longhaul/run/workload.h"

namespace longhaul::run {

struct ReplayOptions {
  std::string folder = {};  // of the run
  std::string site = {};    // "tokyo" or "tokyo/1": the second node of that site
  bool recompute = false;   // computes steps again although the recording holds their results
  const OwnLearners* learners = nullptr;  // for [model] kind = "own"
  // Called after each input; false stops.
  std::function<bool(const std::string& file, const record::Outcome&, std::uint64_t bytes,
                     std::uint64_t of_bytes)>
      go_on = {};
};

// One file: a session of the run.
struct ReplayedSession {
  std::string file;
  record::Header header;
  bool recomputed = false;
  record::Outcome outcome;
};
struct ReplayResult {
  Rank rank = 0;
  std::string site;
  std::uint32_t rank_in_site = 0;
  std::vector<ReplayedSession> sessions;
};

// Replays the sessions of the node, up to the first that differs. Error: no such run, site or
// recording, a changed job, or an invalid file; it names which.
Result<ReplayResult> replay(const ReplayOptions&);

// 0 the same, 1 a difference, 2 a recording that is damaged or a learner that computes other bits,
// 130 stopped.
int exit_code(const ReplayResult&);
nlohmann::ordered_json to_json(const ReplayResult&);

}  // namespace longhaul::run
