#pragma once
// Run folders for pages: the folders that a user means, and the additions from their jobs.
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
  std::vector<std::string> nodes = {};  // as in RunReader
};

// Returns the folders that hold a run: the given ones, or all below one that holds none itself (a
// comparison, or several seeds), three levels deep, by name. Neighbouring folders of sites that ran
// one job are one run: that of `launch`, or their own. Returns an Error if a folder holds none.
Result<std::vector<RunFolder>> run_folders(const std::vector<std::string>& given);

// Adds to a run where its bytes went, from its job. Not for several threads.
class PlanAdder {
 public:
  // Returns the run with "plan_svg", a picture of the bytes sent from site to site, and "busiest",
  // the link that needed the most time for them. If not all sites have reported, adds "plan" and
  // its picture instead: the bytes of a planned round. Otherwise the run is unchanged. Runs of one
  // model load it once. `job_folder`: that of the run, or of one of its sites.
  nlohmann::ordered_json add(nlohmann::ordered_json run, const std::string& job_folder);
  // Adds only the sent bytes, without the model. Returns false if not all sites have reported.
  bool add_sent(nlohmann::ordered_json& run, const std::string& job_folder);

 private:
  const run::Job* job_of(const std::string& folder);

  std::map<std::string, std::optional<run::Job>> jobs_;  // by folder
  std::map<std::string, std::uint64_t> parameters_;      // by the settings of [model] and [data]
};

// Makes the labels of runs differ, with as much of their folder names as necessary.
void name_apart(std::vector<nlohmann::ordered_json>& runs, const std::vector<RunFolder>& folders);

}  // namespace longhaul::cli
