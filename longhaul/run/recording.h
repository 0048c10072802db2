#pragma once
// recordings/SITE-NODE-SESSION.rec of a run folder: the inputs and actions of one node in one
// session of the run (docs/replay.md). NODE counts within the site from 0, SESSION from 1.
#include <memory>
#include <string>
#include <vector>

#include "longhaul/record/recorder.h"
#include "longhaul/run/job/job.h"
#include "longhaul/run/workload.h"

namespace longhaul::run {

// A recording in progress. Attach it before the node's first input, or its first after loading:
//
//   auto recording = Recording::open(folder, job, workload, rank, record::Mode::hashes);
//   node.tap((*recording)->tap());
//   ... the run ...
//   LH_TRY((*recording)->finish());
class Recording {
 public:
  // Creates the file of the next session of that node.
  static Result<std::unique_ptr<Recording>> open(const std::string& folder, const Job&,
                                                 const Workload&, const Place&, record::Mode);
  ~Recording();

  Tap* tap() { return recorder_.get(); }
  // Call it when the run has ended. Error: the file could not be written; the recording ends at the
  // first failed write.
  Status finish();
  const std::string& path() const { return path_; }

 private:
  class FileSink;
  explicit Recording(std::string path);

  std::string path_;
  std::unique_ptr<FileSink> sink_;
  std::unique_ptr<record::Recorder> recorder_;
};

// The sessions of one node, in order; empty if it was not recorded.
std::vector<std::string> recordings_of(const std::string& folder, const Member&);
// "Intel(R) Xeon(R) ..., avx512f": CPU name and vector extension, which determine how a learner
// rounds.
std::string cpu_name();

}  // namespace longhaul::run
