#pragma once
// The models in a run's folder.
//   best.pt   the best model that was scored so far
//   last.pt   the parameters with which the newest session ended, also after Ctrl-C
//   model.pt  the run's result: best.pt if the target was reached, else last.pt
// Of own learners: best.f32 ... A run may go on for some rounds after it has reached its target, so
// the last model can be worse than the one that reached it.
#include <atomic>
#include <chrono>
#include <future>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "longhaul/learn/data/load.h"
#include "longhaul/run/summary.h"
#include "longhaul/run/workload.h"

namespace longhaul::run {

// By the measure of the job's target; without one by accuracy, then by loss.
bool is_better(const Job&, const Evaluation&, const std::optional<BestScore>& before);

class ModelFiles {
 public:
  // Job and workload outlive this. `folder` "": nothing is written.
  ModelFiles(const Job& job, const Workload& workload, std::string folder)
      : job_(job), workload_(workload), folder_(std::move(folder)) {}

  // Scores, and writes best.pt when the score is better than all before. The result is called by
  // one thread at a time; it refers to this. A model that cannot be written is no Error of its
  // score: see look().
  Workload::NodeScore keeping_best(Workload::NodeScore);
  // Where sites have tests of their own: the model of a report, and its score, which comes later.
  // Another thread writes best.pt.
  void reported(Round, Snapshot model);
  void summed(Round, const Evaluation&);
  // The best score of earlier sessions; before the first call of the scorer.
  void resume(const std::optional<BestScore>& best) { best_ = best; }
  // What came of writing the newest best model; nothing if none was written since the last call.
  // Call it now and then: it lets another thread try again what failed. One thread.
  std::optional<Status> look();
  // best.pt is there, and the best model: it was written, or is of an earlier session. Not before
  // the scorer is done.
  bool has_best() const;
  // The session has ended; writes last.pt and model.pt.
  Status end(std::span<const float> params, bool reached_target);

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::size_t kMostReported = 4;
  static constexpr std::chrono::seconds kAgain{2};

  std::string file(std::string_view name) const;
  Status write_last(std::span<const float> params, bool reached_target);
  void save_best(std::span<const float> model);
  void save_best_again();

  const Job& job_;
  const Workload& workload_;
  const std::string folder_;
  std::optional<BestScore> best_;
  std::atomic<bool> has_best_ = true;
  std::map<Round, Snapshot> reported_;  // without a score: the newest kMostReported
  std::mutex saving_;                   // best.pt is being written
  std::mutex mutex_;                    // of those that follow
  std::optional<Status> newest_;
  Snapshot unwritten_;  // the best model, as long as it is not in best.pt
  Clock::time_point tried_{};
  std::future<void> writing_;  // last: it uses the others
};

// Puts a copy of the file (or another name of it) into place, atomically.
Status copy_into_place(const std::string& from, const std::string& to);
// "pt", or "f32" for own learners.
std::string model_extension(const Job&);

// "": of data that are no table; docs/data.md says what those mean.
std::string data_json(const learn::Split&);

struct DataMeaning {
  learn::DataSet like;  // without samples: shape, names of classes, columns, categories, target
  std::vector<learn::ColumnScale> scales;  // empty: columns are as the file has them
  std::vector<double> fills;               // of missing cells; empty: none may be missing
};
// Errors name the file.
Result<DataMeaning> read_data_file(const std::string& folder);

}  // namespace longhaul::run
