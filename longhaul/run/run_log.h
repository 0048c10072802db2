#pragma once
// The log of a run, simulated or over sockets: metrics.jsonl, the newest score, and progress for
// the user.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "longhaul/base/archive.h"
#include "longhaul/base/result.h"
#include "longhaul/core/node.h"
#include "longhaul/core/sample_ledger.h"
#include "longhaul/core/shared_members.h"
#include "longhaul/core/types.h"
#include "longhaul/run/appended_file.h"
#include "longhaul/run/metrics.h"
#include "longhaul/run/nodes.h"
#include "longhaul/run/progress.h"
#include "longhaul/run/run_folder.h"
#include "longhaul/run/samples_file.h"
#include "longhaul/run/summary.h"

namespace longhaul::run {

// Detects a site whose contributions are far larger than those of the others, for example because a
// column is in other units.
class NormWatch {
 public:
  static constexpr double kFar = 100;  // times the median of the other nodes' newest norms

  explicit NormWatch(const Members& members) : members_(members) {}
  // Takes the norm of a node's contribution to the round and returns a warning for the user, if
  // any. A node is reported again only if it is ten times farther off than at its last warning.
  std::optional<std::string> take(Rank rank, Round round, double norm) {
    if (!std::isfinite(norm)) return std::nullopt;  // ends the run, and is reported then
    newest_[rank] = norm;
    std::vector<double> others;
    for (const auto& [other, one] : newest_)
      if (other != rank) others.push_back(one);
    if (others.empty()) return std::nullopt;
    const auto middle = others.begin() + std::ptrdiff_t(others.size() / 2);
    std::nth_element(others.begin(), middle, others.end());
    const double times = norm / *middle;
    if (!(*middle > 0) || times < kFar) return std::nullopt;
    double& told = told_[rank];
    if (times < 10 * told) return std::nullopt;
    told = times;
    return fmt::format(
        "{}: what it contributes in round {} is {:.2g} times as large as the median of the others: "
        "are "
        "its data in other units? [data] standardise = true brings columns to one scale, [run] "
        "without leaves a site out",
        node_name(members_.at(rank)), round, times);
  }

 private:
  const Members& members_;  // must outlive this object
  std::map<Rank, double> newest_;
  std::map<Rank, double> told_;  // ratio to the median at the node's last warning
};

// RUN/tensorboard/events.out.tfevents.*: the figures of a run, in TensorBoard's format. Each record
// has a length, data and their checksums (TFRecord: CRC-32C, masked). The data is an Event of
// TensorFlow's event.proto, with scalars only. Each session writes its own file; TensorBoard shows
// the files of one folder as one run.
class TensorBoardFile {
 public:
  // Creates the folder. `began_s`: the Unix time shown for the run's time zero. `void_from`: for a
  // resumed run, the step from which the events of earlier sessions are void.
  static Result<TensorBoardFile> open(const std::string& folder, double began_s,
                                      std::optional<Round> void_from = {});
  // Writes the values of an event. Tags of scores and views: kind/value. Tags of node records:
  // kind/site, plus the node's number if the site has several nodes.
  void write(const MetricsEvent&, bool site_has_several, std::uint32_t rank_in_site);
  // Behave as those of AppendedFile.
  Status flush() { return file_.flush(); }
  Status sync() { return file_.sync(); }

 private:
  TensorBoardFile(AppendedFile file, double began_s) : file_(std::move(file)), began_s_(began_s) {}

  AppendedFile file_;
  double began_s_;
};

class RunLog {
 public:
  // All arguments must outlive this object. `folder`: null writes nothing. `scores`: whether the
  // model can be scored. `is_virtual`: whether times are the simulator's.
  RunLog(const Job&, const Members&, const RunFolder* folder, Progress::Style, bool scores,
         bool is_virtual = true);

  // Must be called first. Keeps the first `keep` bytes of metrics.jsonl.
  Status open(std::uint64_t keep);
  // Logs the score of the whole model. `wan_bytes`: bytes sent between sites until then; absent if
  // only a part of them is known.
  void scored(Time, Rank, Round, const Evaluation&, std::optional<std::uint64_t> wan_bytes = {});
  // Logs the score of a node's copy on its site's own test samples.
  void scored_part(Time, Rank, Round, const Evaluation&);
  void recorded(Time, Rank, const Record&);
  void note(const std::string& text) { progress_.note(text); }
  // Checks the norm of another node's contribution. recorded() checks this node's own.
  void contributed(Rank, Round, double norm);
  // Adds a warning for the user, the summary and the other sites. Keeps at most kMostWarnings.
  void warn(const std::string& text);
  static constexpr std::size_t kMostWarnings = 16;
  const std::vector<std::string>& warnings() const { return totals_.warnings; }
  // Logs a new view after `rounds` rounds, with the number of live workers.
  void view(Time, Rank, Round rounds, std::uint64_t live);
  // Count the unused samples of a lost node as lost, and register its return.
  void node_lost(Rank);
  void node_returned(Rank);
  // Takes over the ledger of samples of this node's previous process; the unused samples count as
  // lost. Must be called before open(). For a node over sockets that rejoins.
  void take_up_samples(Rank self);
  // Takes the final model's score for the best one so far. Logs it only if it is the first to reach
  // the target.
  void concluded(Time, Rank, Round, const Evaluation&);
  // Does the same for a run that ended by itself, and completes its summary.
  void conclude(Time, Rank, const Evaluation&, Summary&);
  // Shows progress to the user. `waits_for`, `waited_s`: see ProgressState.
  void progress(Round rounds, Time now, std::uint64_t wan_bytes, const std::string& waits_for = "",
                double waited_s = 0);
  const Participation& participation() const { return totals_.participation; }
  // Forces everything to disk and returns the length of metrics.jsonl.
  Result<std::uint64_t> sync();
  // Returns the present length of metrics.jsonl, and a function that forces this many bytes to
  // disk. Another thread that writes a checkpoint can call it. The function returns an Error while
  // the log could not write that much; the log retries once a second.
  std::pair<std::uint64_t, std::function<Status()>> sync_later();
  // Creates the folder again if it was removed during the run. Each flush() does the same.
  void restore_folder();
  // Returns true if the folder was created again since the last call. Its earlier content is gone.
  bool take_restored() { return std::exchange(restored_, false); }
  // Notes the result of writing a file of the run folder: its first failure, and when writing works
  // again.
  void wrote(const std::string& file, const Status&);

  // Returns why the run must end by [run] on_low_participation = "end"; "" if it need not.
  const std::string& low_participation() const { return low_participation_; }
  bool reached_target() const { return totals_.time_to_target_s.has_value(); }
  bool fresh_score() const { return fresh_score_; }  // since the last progress()
  double real_s() const;                             // sum over all sessions
  const std::optional<BestScore>& best() const { return totals_.best; }
  // Fills in the results so far.
  void fill(Summary&) const;
  // Saves or loads the state, for checkpoints. A session that loads continues that run.
  void state(Archive&);

 private:
  using Clock = std::chrono::steady_clock;
  struct Totals {
    std::optional<double> time_to_target_s, target_after_s, loss, accuracy;
    std::optional<double> scored_s;  // time of `loss` and `accuracy`
    double real_s = 0;
    RunStatistics statistics;
    std::optional<BestScore> best;
    Participation participation;
    SampleLedger samples;
    std::vector<std::string> warnings;
    void state(Archive& ar) {
      ar(time_to_target_s, target_after_s, loss, accuracy, scored_s, real_s, statistics, best,
         participation, samples, warnings);
    }
  };
  void write(Time, Rank, Round, std::string_view kind,
             std::span<const std::pair<std::string_view, double>> values);
  void write_score(Time, Rank, Round, std::string_view kind, const Evaluation&,
                   std::optional<std::uint64_t> wan_bytes);
  bool reaches(const Evaluation&) const;
  void note_target(double at_s, const Evaluation&);
  void flush_when_due();
  Status flush();
  Status open_tensorboard(const std::string& metrics, std::uint64_t keep);
  void draw(const MetricsEvent&);
  void left_out(Round, double share);

  const Job& job_;
  const Members& members_;
  const RunFolder* folder_;
  const bool scores_;
  const bool predicts_bytes_;
  const bool is_virtual_;
  Progress progress_;
  std::optional<AppendedFile> metrics_;
  // Written bytes of metrics.jsonl, shared with the functions of sync_later().
  const std::shared_ptr<std::atomic<std::uint64_t>> written_ =
      std::make_shared<std::atomic<std::uint64_t>>(0);
  std::optional<SamplesFile> samples_;  // used over sockets only
  std::optional<TensorBoardFile> tensorboard_;
  std::set<std::string> failing_;  // files that could not be written
  std::uint64_t dropped_ = 0;      // events that were dropped and reported
  bool restored_ = false;
  Totals totals_;
  Thinning thinning_;
  const Clock::time_point begin_ = Clock::now();
  Clock::time_point flushed_ = begin_;
  double real_before_ = 0;
  bool fresh_score_ = false;
  std::map<Round, double> left_out_;  // shares of the newest [run] participation_rounds rounds
  Round next_left_out_ = 0;
  Round warned_ = 0;  // no further warning before this round
  std::string low_participation_;
  NormWatch norms_;
};

}  // namespace longhaul::run
