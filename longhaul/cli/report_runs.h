#pragma once
// Run folders for pages: which ones a user means, and what the job adds to what a folder holds.
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "longhaul/base/result.h"
#include "longhaul/report/run_reader.h"
#include "longhaul/run/job/job.h"

namespace longhaul::cli {

struct RunFolder {
  std::string folder;
  std::vector<std::string> nodes = {};  // as RunReader takes them
};

// The folders that hold a run: those given, and of one that holds none itself (of a comparison, or
// of several seeds) all below it, three levels deep, by name. Folders of sites beside each other
// that ran one job are one run: that of `launch`, or their own. Error: one holds none.
Result<std::vector<RunFolder>> run_folders(const std::vector<std::string>& given);

// Adds to a run what its job says of where its bytes went. Not for several threads.
class PlanAdder {
 public:
  // The run with "plan_svg", a picture of what was sent from site to site, and "busiest", the link
  // that it took longest; where not all sites have told, with "plan" and the picture of that, what
  // a round over its overlay would send; else as it was. Runs of one model load it once.
  // `job_folder`: that of the run, or of one of its sites.
  nlohmann::ordered_json add(nlohmann::ordered_json run, const std::string& job_folder);
  // Only what was sent, which needs no model. False: not all sites have told.
  bool add_sent(nlohmann::ordered_json& run, const std::string& job_folder);

 private:
  const run::Job* job_of(const std::string& folder);

  std::map<std::string, std::optional<run::Job>> jobs_;  // by folder
  std::map<std::string, std::uint64_t> parameters_;      // by the settings of [model] and [data]
};

// Makes the labels of runs differ: by as much of their folders as it takes.
void name_apart(std::vector<nlohmann::ordered_json>& runs, const std::vector<RunFolder>& folders);

}  // namespace longhaul::cli
