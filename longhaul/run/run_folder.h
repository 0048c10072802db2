#pragma once
// runs/NAME/: job.toml, metrics.jsonl, summary.json, models, checkpoints/, recordings/, lock.
#include <memory>
#include <string>
#include <vector>

#include "longhaul/base/result.h"
#include "longhaul/run/job/job.h"

namespace longhaul::run {

class FolderLock;

enum class ExistingFolder {
  refuse,          // an existing folder is an Error that names --force and --resume
  force,           // removes the files of an earlier run
  resume,          // must hold a run of the same job
  resume_or_begin  // resumes an existing run, or starts one
};

class RunFolder {
 public:
  // Replaces resume_or_begin by resume or refuse, as the folder requires; other values are
  // unchanged.
  static ExistingFolder resolve(const std::string& path, ExistingFolder);
  // Returns an Error if the run must not be written there: another process uses the folder, or a
  // resumed job differs in a key that must not change. Writes nothing, so that a job that cannot
  // run leaves no folder.
  static Status check(const std::string& path, const Job&, ExistingFolder);
  // Checks the same, locks the folder until this object and its copies are gone, also by kill -9,
  // and writes the job.toml. From then on only the user and group can read the files of this
  // process (umask), because models, metrics and checkpoints reveal the data.
  static Result<RunFolder> open(std::string path, const Job&, ExistingFolder);
  // Removes the files of a run, but no other files and not the folder. Returns an Error if a
  // process uses it.
  static Status clear(const std::string& path);
  // Removes the folder of a session that could not begin, with all files of the session, and the
  // folders `of_nodes` in it, if open() found it empty or made it. Must be called when nothing
  // writes there any longer.
  void discard(const std::vector<std::string>& of_nodes = {}) const;

  // Makes the folder, its lock and its job.toml again and returns true if they were removed.
  // Returns an Error if that fails, or if another process has locked a folder of this name.
  Result<bool> restore() const;

  const std::string& path() const { return path_; }
  std::string file(std::string_view name) const { return path_ + "/" + std::string(name); }
  std::string checkpoints() const { return file("checkpoints"); }

 private:
  RunFolder(std::string path, std::string job, bool is_new, std::shared_ptr<FolderLock> lock)
      : path_(std::move(path)), job_(std::move(job)), is_new_(is_new), lock_(std::move(lock)) {}
  std::string path_;
  std::string job_;  // job.toml
  bool is_new_;      // the folder was empty
  std::shared_ptr<FolderLock> lock_;
};

// Returns the job of a run folder.
Result<Job> job_of_run(const std::string& folder);

}  // namespace longhaul::run
