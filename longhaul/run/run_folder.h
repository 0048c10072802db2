#pragma once
// runs/NAME/: job.toml, metrics.jsonl, summary.json, models, checkpoints/, recordings/, lock.
#include <memory>
#include <string>

#include "longhaul/base/result.h"
#include "longhaul/run/job/job.h"

namespace longhaul::run {

enum class ExistingFolder {
  refuse,          // an existing folder is an Error that names --force and --resume
  force,           // removes what an earlier run wrote
  resume,          // it must hold a run of the same job
  resume_or_begin  // resumes an existing run, else starts one
};

class RunFolder {
 public:
  // Replaces resume_or_begin by resume or refuse, as the folder requires; other values are
  // unchanged.
  static ExistingFolder resolve(const std::string& path, ExistingFolder);
  // Whether the run may be written there. Error: another process uses the folder; a resumed job
  // differs in a key that may not change. Writes nothing, so that a job that cannot run leaves no
  // folder.
  static Status check(const std::string& path, const Job&, ExistingFolder);
  // The same, then locks the folder until this object and its copies are gone, also by kill -9,
  // and writes the job.toml. From then on this process creates no file that others than its user
  // and group may read (umask): models, metrics and checkpoints tell of the data.
  static Result<RunFolder> open(std::string path, const Job&, ExistingFolder);
  // Removes what a run wrote, but no other files and not the folder. Error: a process uses it.
  static Status clear(const std::string& path);
  // Of a session that could not begin: if open() found the folder empty, or made it, removes it
  // with all that the session wrote. Call it when nothing writes there any more.
  void discard() const;

  // Makes the folder, its lock and its job.toml again if they were removed, and says so: true. An
  // Error: that fails; or another process has locked a folder of this name since.
  Result<bool> restore() const;

  const std::string& path() const { return path_; }
  std::string file(std::string_view name) const { return path_ + "/" + std::string(name); }
  std::string checkpoints() const { return file("checkpoints"); }

 private:
  class Lock;
  RunFolder(std::string path, std::string job, bool is_new, std::shared_ptr<Lock> lock)
      : path_(std::move(path)), job_(std::move(job)), is_new_(is_new), lock_(std::move(lock)) {}
  std::string path_;
  std::string job_;  // job.toml
  bool is_new_;      // nothing was in it
  std::shared_ptr<Lock> lock_;
};

// The job that a run folder was made for.
Result<Job> job_of_run(const std::string& folder);

}  // namespace longhaul::run
