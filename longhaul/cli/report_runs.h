#pragma once
// Run folders for pages: which ones a user means, and what the job adds to what a folder holds.
#include <map>
#include <string>
#include <vector>

#include "longhaul/base/result.h"
#include "longhaul/report/run_reader.h"

namespace longhaul::cli {

// The folders that hold a run: those given, and of one that holds none itself (of a comparison, or
// of several seeds) all below it, three levels deep, by name. Error: one holds none.
Result<std::vector<std::string>> run_folders(const std::vector<std::string>& given);

// The run with "plan" and "plan_svg", where its job has a plan of its overlay; else as it was. Runs
// of one model load it once.
class PlanAdder {
 public:
  nlohmann::ordered_json add(nlohmann::ordered_json run);

 private:
  std::map<std::string, std::uint64_t> parameters_;  // by the settings of [model] and [data]
};

// Makes the labels of runs differ: by as much of their folders as it takes.
void name_apart(std::vector<nlohmann::ordered_json>& runs, const std::vector<std::string>& folders);

}  // namespace longhaul::cli
