#pragma once
// Trains a job in virtual time.
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "longhaul/base/result.h"
#include "longhaul/record/entries.h"
#include "longhaul/run/job/job.h"
#include "longhaul/run/progress.h"
#include "longhaul/run/run_folder.h"
#include "longhaul/run/summary.h"
#include "longhaul/run/workload.h"

namespace longhaul::run {

struct SimulateOptions {
  std::string folder = {};  // folder of the run; "": nothing is written
  ExistingFolder existing = ExistingFolder::refuse;
  unsigned threads = 0;  // for gradients; 0: one per core
  Progress::Style progress = Progress::Style::quiet;
  // Called between events with the completed rounds. Returns true to end the run like Ctrl-C.
  std::function<bool(Round)> stop = {};
  // Cuts the run at this virtual time, in s, between any events; it can be resumed from there.
  std::optional<double> until_s = {};
  const OwnLearners* learners = nullptr;  // for [model] kind = "own"; must outlive the call
  // Records every node into recordings/ of `folder`, which must be set.
  std::optional<record::Mode> record = {};
};

// Trains, writes the run folder and returns its summary, also after Ctrl-C or a failure of the
// simulated network (Summary::stop_reason). Returns an Error if the job cannot run, or if a named
// file cannot be read or written.
Result<Summary> simulate(const Job&, const SimulateOptions&);

// The result of `--dry-run`: time and bytes of the job, from a few rounds without numbers.
struct Prediction {
  Round rounds = 0;     // max_rounds of the job
  Round simulated = 0;  // rounds that were simulated
  double time_s = 0, round_s = 0;
  double wan_bytes = 0, round_bytes = 0;
  double compute_utilisation = 0;
  std::uint64_t parameters = 0;
};
Result<Prediction> predict(const Job&, const OwnLearners* = nullptr);

// Loss and accuracy of a run's model on its test set.
struct Score {
  std::optional<double> accuracy;  // absent: regression
  double loss = 0;
  std::uint64_t samples = 0;
  std::string params_hash;
  LONGHAUL_FIELDS(accuracy, loss, samples, params_hash)
};
Result<Score> evaluate(const std::string& run_folder);

// The samples of each label at every worker, for `longhaul explain JOB`.
struct PartitionTable {
  std::vector<std::string> workers;                // "virginia" or "virginia/1"
  std::vector<std::vector<std::uint64_t>> counts;  // [worker][label]; regression: one column
  std::uint64_t parameters = 0;               // size of the model; 0: unknown, [model] kind = "own"
  std::shared_ptr<const Layout> layout = {};  // the model's; null: unknown
  std::vector<std::string> labels = {};       // names, in the order of `counts`; may be empty
  // csv: mean and deviation of each column's training samples before standardisation.
  std::vector<std::string> columns = {};
  std::vector<learn::ColumnScale> scales = {};
  bool standardised = false;
  // The sites whose own files are elsewhere, and the samples that a plan assumes for each.
  std::vector<std::string> absent = {};
  std::uint64_t absent_samples = 0;
};
Result<PartitionTable> partition_table(const Job&, const OwnLearners* = nullptr);

// Returns advice if the model gets columns of very different scales; otherwise "".
std::string scale_hint(const PartitionTable&);
// Returns the same for a run that learned only the most frequent label; otherwise "".
std::string chance_hint(const Job&, const Summary&);

struct Exported {
  std::string path;
  std::uint64_t round = 0;  // round of the checkpoint; over sockets its number
  std::uint64_t values = 0;
};

// Exports a model. `checkpoint`: a file in a run folder's checkpoints/, or a run folder for its
// newest. `out`: the file to write; "": exported.pt in the run folder (own learners: exported.f32).
// Errors: no checkpoint, a damaged one, or one of a node without a model.
Result<Exported> export_checkpoint(const std::string& checkpoint, const std::string& out);

struct Answers {
  std::vector<std::string> targets;  // the predicted values; one, or several numbers or labels
  std::vector<std::string> classes;  // for a classification; else empty
  std::vector<std::vector<std::string>> predicted;  // by sample: a class, or a text for each target
  // By sample: of each class, or of each label; empty for numbers.
  std::vector<std::vector<double>> probabilities;
};
// `run`: a run's folder with model.pt and data.json. Errors name the file, line and column.
Result<Answers> answers(const std::string& run, const std::string& csv);

}  // namespace longhaul::run
