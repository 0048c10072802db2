#pragma once
// The models in a run's folder.
//   best.pt   the best model that was scored so far
//   last.pt   the parameters with which the newest session ended, also after Ctrl-C
//   model.pt  the run's result: best.pt if the target was reached, else last.pt
// Own learners: best.f32 and so on. A run can continue for some rounds after it has reached its
// target. The last model can then be worse than the one that reached it.
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

// Returns true if the score is better: by the measure of the job's target, or without a target by
// accuracy, then by loss.
bool is_better(const Job&, const Evaluation&, const std::optional<BestScore>& before);

class ModelFiles {
 public:
  // Job and workload must outlive this object. `folder` "": nothing is written.
  ModelFiles(const Job& job, const Workload& workload, std::string folder)
      : job_(job), workload_(workload), folder_(std::move(folder)) {}

  // Returns a function that scores a model, and writes best.pt if its score is the best so far.
  // Called by one thread at a time; refers to this object. A failed write is no Error of the score:
  // see look().
  Workload::NodeScore keeping_best(Workload::NodeScore);
  // Takes the model of a report, and later its score, if sites have tests of their own. Another
  // thread writes best.pt.
  void reported(Round, Snapshot model);
  void summed(Round, const Evaluation&);
  // Sets the best score of earlier sessions; called before the first call of the scorer.
  void resume(const std::optional<BestScore>& best) { best_ = best; }
  // Returns the result of writing the newest best model; nothing if none was written since the last
  // call. Must be called regularly, because it lets another thread retry a failed write. One
  // thread.
  std::optional<Status> look();
  // Returns true if best.pt exists and is the best model, from this or an earlier session. Must not
  // be called before the scorer is done.
  bool has_best() const;
  // Ends the session: writes last.pt and model.pt.
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
  std::map<Round, Snapshot> reported_;  // not scored yet: the newest kMostReported
  std::mutex saving_;                   // locked while best.pt is written
  std::mutex mutex_;                    // guards the members below
  std::optional<Status> newest_;
  Snapshot unwritten_;  // best model until best.pt holds it
  Clock::time_point tried_{};
  std::future<void> writing_;  // last, because it uses the other members
};

// Puts a copy of the file (or another name for it) into place, atomically.
Status copy_into_place(const std::string& from, const std::string& to);
// Returns "pt", or "f32" for own learners.
std::string model_extension(const Job&);

// Returns "" for data that are no table. docs/data.md defines the fields.
std::string data_json(const learn::Split&);

struct DataMeaning {
  learn::DataSet like;  // without samples: shape, class names, columns, categories, target
  std::vector<learn::ColumnScale> scales;  // empty: columns as in the file
  std::vector<double> fills;               // for missing cells; empty: no cell may be missing
};
// Errors name the file.
Result<DataMeaning> read_data_file(const std::string& folder);

}  // namespace longhaul::run
