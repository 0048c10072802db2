#pragma once
// The log of a run, simulated or over sockets: metrics.jsonl, the newest score, progress for the
// user.
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

// Finds a site whose contributions are far larger than the others', as of a column in other units.
class NormWatch {
 public:
  static constexpr double kFar = 100;  // times the median of the others' newest

  explicit NormWatch(const Members& members) : members_(members) {}
  // The norm of what a node contributes in its round. What to tell the user, who hears of a node
  // again when it has become ten times as far.
  std::optional<std::string> take(Rank rank, Round round, double norm) {
    if (!std::isfinite(norm)) return std::nullopt;  // that ends the run, and is told then
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
  const Members& members_;  // outlive this
  std::map<Rank, double> newest_;
  std::map<Rank, double> told_;  // how far a node was
};

// RUN/tensorboard/events.out.tfevents.*: the figures of a run as TensorBoard reads them. Records of
// length, data and their checksums (TFRecord: CRC-32C, masked), each an Event of TensorFlow's
// event.proto with scalars alone. A session writes a file of its own; TensorBoard shows those of
// one folder as one run.
class TensorBoardFile {
 public:
  // Makes the folder. `began_s`: the Unix time that the run's zero is shown as. `void_from`: of a
  // run that is resumed: what the files of earlier sessions say from this step on is void.
  static Result<TensorBoardFile> open(const std::string& folder, double began_s,
                                      std::optional<Round> void_from = {});
  // Tags: kind/value of scores and views; kind/site, and the node's number where a site has
  // several, of what nodes record.
  void write(const MetricsEvent&, bool site_has_several, std::uint32_t rank_in_site);
  // As of AppendedFile.
  Status flush() { return file_.flush(); }
  Status sync() { return file_.sync(); }

 private:
  TensorBoardFile(AppendedFile file, double began_s) : file_(std::move(file)), began_s_(began_s) {}

  AppendedFile file_;
  double began_s_;
};

class RunLog {
 public:
  // All arguments outlive this. `folder` may be null: nothing is written. `scores`: the model can
  // be scored. `is_virtual`: time is the simulator's.
  RunLog(const Job&, const Members&, const RunFolder* folder, Progress::Style, bool scores,
         bool is_virtual = true);

  // Call it first; keeps the first `keep` bytes of metrics.jsonl.
  Status open(std::uint64_t keep);
  // `wan_bytes`: sent between sites by then; absent where only a part of them is known.
  void scored(Time, Rank, Round, const Evaluation&, std::optional<std::uint64_t> wan_bytes = {});
  // Where sites have tests of their own: what a node's copy is worth on those of its site.
  void scored_part(Time, Rank, Round, const Evaluation&);
  void recorded(Time, Rank, const Record&);
  void note(const std::string& text) { progress_.note(text); }
  // The norm of what a node contributes; of this node recorded() tells it.
  void contributed(Rank, Round, double norm);
  // For the user, the summary, and the other sites; at most kMostWarnings.
  void warn(const std::string& text);
  static constexpr std::size_t kMostWarnings = 16;
  const std::vector<std::string>& warnings() const { return totals_.warnings; }
  // The view has changed after so many rounds: so many workers are live.
  void view(Time, Rank, Round rounds, std::uint64_t live);
  // A node is lost, with what it has computed and nobody uses; it has returned.
  void node_lost(Rank);
  void node_returned(Rank);
  // Before open(), of a node over sockets that begins anew in the folder of the process before:
  // goes on with that one's ledger of samples, which is lost but for what others use.
  void take_up_samples(Rank self);
  // The final model's score. One that reaches the target for the first time is an event; others
  // were told with their rounds, or do not count.
  void concluded(Time, Rank, Round, const Evaluation&);
  // The same of a run that came to its end by itself: what its model is worth, into the summary.
  void conclude(Time, Rank, const Evaluation&, Summary&);
  // `waits_for`, `waited_s`: see ProgressState.
  void progress(Round rounds, Time now, std::uint64_t wan_bytes, const std::string& waits_for = "",
                double waited_s = 0);
  const Participation& participation() const { return totals_.participation; }
  // Forces everything to disk; returns the length of metrics.jsonl.
  Result<std::uint64_t> sync();
  // For a checkpoint that another thread writes: its length by now, and a function, for any thread,
  // which forces so much of it to disk. An Error as long as this log could not write so much; it
  // tries again once a second.
  std::pair<std::uint64_t, std::function<Status()>> sync_later();
  // Makes the folder again if it was removed under the run; as flush() and a second do.
  void restore_folder();
  // The folder was made again since the last call: what it held is gone.
  bool take_restored() { return std::exchange(restored_, false); }
  // Says what came of writing a file of the run's folder: that it fails once, and the end of it.
  void wrote(const std::string& file, const Status&);

  // Why the run is to end by [run] on_low_participation = "end"; "" as long as it is not.
  const std::string& low_participation() const { return low_participation_; }
  bool reached_target() const { return totals_.time_to_target_s.has_value(); }
  bool fresh_score() const { return fresh_score_; }  // since the last progress()
  double real_s() const;                             // of all sessions
  const std::optional<BestScore>& best() const { return totals_.best; }
  // Fills in what is known of the run so far.
  void fill(Summary&) const;
  // For checkpoints. Loading makes this session the next one of that run.
  void state(Archive&);

 private:
  using Clock = std::chrono::steady_clock;
  struct Totals {
    std::optional<double> time_to_target_s, loss, accuracy;
    double real_s = 0;
    RunStatistics statistics;
    std::optional<BestScore> best;
    Participation participation;
    SampleLedger samples;
    std::vector<std::string> warnings;
    void state(Archive& ar) {
      ar(time_to_target_s, loss, accuracy, real_s, statistics, best, participation, samples,
         warnings);
    }
  };
  void write(Time, Rank, Round, std::string_view kind,
             std::span<const std::pair<std::string_view, double>> values);
  void write_score(Time, Rank, Round, std::string_view kind, const Evaluation&,
                   std::optional<std::uint64_t> wan_bytes);
  bool reaches(const Evaluation&) const;
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
  // Of metrics.jsonl, for the functions of sync_later().
  const std::shared_ptr<std::atomic<std::uint64_t>> written_ =
      std::make_shared<std::atomic<std::uint64_t>>(0);
  std::optional<SamplesFile> samples_;  // over sockets
  std::optional<TensorBoardFile> tensorboard_;
  std::set<std::string> failing_;  // files
  std::uint64_t dropped_ = 0;      // events, as was told
  bool restored_ = false;
  Totals totals_;
  Thinning thinning_;
  const Clock::time_point begin_ = Clock::now();
  Clock::time_point flushed_ = begin_;
  double real_before_ = 0;
  bool fresh_score_ = false;
  std::map<Round, double> left_out_;  // of the newest rounds: [run] participation_rounds
  Round next_left_out_ = 0;
  Round warned_ = 0;  // no further warning before this round
  std::string low_participation_;
  NormWatch norms_;
};

}  // namespace longhaul::run
