#pragma once
// recordings/SITE-NODE-SESSION.rec of a run folder: what one node was told and did in one session
// of the run (docs/replay.md). NODE counts within the site from 0, SESSION from 1.
#include <memory>
#include <string>
#include <vector>

#include "longhaul/record/recorder.h"
#include "longhaul/run/job/job.h"
#include "longhaul/run/workload.h"

namespace longhaul::run {

// A recording under way. Attach it before the node's first input, or its first since it was loaded:
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
  // The run has ended in whatever way. An Error names the file that could not be written; it then
  // ends where that began.
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
// "Intel(R) Xeon(R) ..., avx512f": what decides how a learner's numbers are rounded.
std::string cpu_name();

}  // namespace longhaul::run
