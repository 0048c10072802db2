#pragma once
// What a job's strategy sends to whom: its first rounds, simulated without numbers and without
// faults. `longhaul explain JOB` prints it.
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "longhaul/run/job/job.h"
#include "longhaul/run/workload.h"

namespace longhaul::run {

struct Explanation {
  std::vector<std::string> lines;  // sentences
  // A row says what a node sends in some rounds, to whom, and how many MB of encoded values that
  // are in each of these rounds. By node, then by part of its strategy. Empty: not simulated.
  std::string title = {};
  std::vector<std::string> head = {};
  std::vector<std::vector<std::string>> rows = {};
};

// `mbytes`: of a phantom of that size in place of the job's model and data. Error: the data cannot
// be read, or the job cannot run.
Result<Explanation> explanation_of(const Job&, std::optional<double> mbytes = {},
                                   const OwnLearners* = nullptr);

// {"lines": [...], "tables": [{"title", "head", "rows"}]}
nlohmann::ordered_json to_json(const Explanation&);

}  // namespace longhaul::run
