#pragma once
// One session of a simulated run: drives the world, writes down what happens, checkpoints, ends it
// cleanly. Several sessions (after Ctrl-C or a kill) make one run.
#include <chrono>
#include <functional>
#include <optional>

#include "longhaul/run/checkpoint.h"
#include "longhaul/run/metrics.h"
#include "longhaul/run/progress.h"
#include "longhaul/run/run_folder.h"
#include "longhaul/run/simulation.h"
#include "longhaul/run/summary.h"

namespace longhaul::run {

class Session {
 public:
  // `folder` may be null: nothing is written. `stop`: see SimulateOptions; may be empty.
  Session(const Job&, Simulation&, const RunFolder* folder, Progress::Style,
          std::function<bool(Round)> stop);

  // Goes on from the newest checkpoint, or from the start if there is none.
  Status resume();
  // Until the end of the run, Ctrl-C or failure. An Error: a file could not be written.
  Result<Summary> run();

 private:
  using Clock = std::chrono::steady_clock;
  struct Counted {  // what a checkpoint holds beside the world
    std::optional<double> time_to_target_s, loss, accuracy;
    double real_s = 0;
    void state(Archive& ar) { ar(time_to_target_s, loss, accuracy, real_s); }
  };

  Status open_metrics(std::uint64_t keep);
  void scored(Time, Rank, Round, const Evaluation&);
  void write(Time, Rank, Round, std::string_view kind,
             std::span<const std::pair<std::string_view, double>> values);
  // Until the end or Ctrl-C. Answers with why the world failed, or "".
  Result<std::optional<Error>> drive();  // nothing: the run ended, or was interrupted
  Status between_events();
  Status checkpoint();
  StopReason reason() const;
  Status conclude(Summary&);
  double real_s() const;

  const Job& job_;
  Simulation& simulation_;
  const RunFolder* folder_;
  Progress progress_;
  std::function<bool(Round)> stop_;
  std::optional<MetricsFile> metrics_;
  Counted counted_;
  const Clock::time_point begin_ = Clock::now();
  double real_before_ = 0;
  Round checkpointed_ = 0;  // rounds done at the last one
  std::uint64_t events_ = 0;
  bool fresh_score_ = false;
};

}  // namespace longhaul::run
