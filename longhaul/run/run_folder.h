#pragma once
// runs/NAME/: job.toml, metrics.jsonl, summary.json, model.pt, checkpoints/, recordings/.
#include <string>

#include "longhaul/base/result.h"
#include "longhaul/run/job/job.h"

namespace longhaul::run {

enum class ExistingFolder {
  refuse,          // an existing folder is an Error that names --force and --resume
  force,           // what an earlier run wrote there is removed
  resume,          // it must hold a run of the same job
  resume_or_begin  // goes on with the run that is there; begins one where there is none
};

class RunFolder {
 public:
  // What resume_or_begin means for that folder as it is now: resume or refuse. Others stay.
  static ExistingFolder resolve(const std::string& path, ExistingFolder);
  // May the run be written there? A job that changed since the run began is an Error that names
  // the first key that differs. Changes nothing, so that a job that cannot run leaves no folder.
  static Status check(const std::string& path, const Job&, ExistingFolder);
  // The same, then creates the folder and its job.toml unless the run is resumed.
  static Result<RunFolder> open(std::string path, const Job&, ExistingFolder);

  const std::string& path() const { return path_; }
  std::string file(std::string_view name) const { return path_ + "/" + std::string(name); }
  std::string checkpoints() const { return file("checkpoints"); }

 private:
  explicit RunFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

// The job that a run folder was made for.
Result<Job> job_of_run(const std::string& folder);

}  // namespace longhaul::run
