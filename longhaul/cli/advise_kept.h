#pragma once
// Results of a plan's trials: read from their runs, and one line of JSON each in
// FOLDER/trials.jsonl. `plan --resume` takes a trial that has ended as it was, although its run may
// have continued since.
#include <map>
#include <optional>
#include <string>

#include "longhaul/cli/advise_search.h"
#include "longhaul/run/run_pool.h"

namespace longhaul::cli {

// Returns the result of a run that has ended or was cut. A target that was reached after the
// limit, by the event at which the run was cut, does not count.
Trial result_of(const run::PoolRun&, const run::PoolEnd&, double limit_s, const Candidate&);

// One thread. A line that is damaged, for example by a full disk, is skipped: its trial runs again.
class KeptTrials {
 public:
  // Reads the lines of an earlier plan in the folder. Without `resume` it removes them.
  void open(const std::string& folder, bool resume);
  // Returns the trial without its candidate; empty if it has not ended. The key names the run and
  // the text of its job.
  std::optional<Trial> find(const std::string& label, const std::string& job_text) const;
  void add(const std::string& label, const std::string& job_text, const Trial&);

 private:
  std::string file_;
  std::map<std::string, Trial> trials_;  // by key
};

}  // namespace longhaul::cli
