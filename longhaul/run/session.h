#pragma once
// One session of a simulated run: runs the world, logs, writes checkpoints, ends cleanly. A run has
// several sessions after Ctrl-C or a kill.
#include <functional>
#include <optional>

#include "longhaul/run/checkpoint.h"
#include "longhaul/run/interrupt.h"
#include "longhaul/run/model_files.h"
#include "longhaul/run/run_log.h"
#include "longhaul/run/simulation.h"
#include "longhaul/run/status_file.h"

namespace longhaul::run {

class Session {
 public:
  // `summary` says whose run it is (summary_of()). `folder` may be null: nothing is written.
  // `stop`: see SimulateOptions; may be empty.
  Session(const Job&, Summary summary, Simulation&, const RunFolder* folder, Progress::Style,
          std::function<bool(Round)> stop);

  // SimulateOptions::until_s.
  void cut_at(std::optional<double> until_s) { until_s_ = until_s; }
  // Resumes from the newest checkpoint, or starts if there is none.
  Status resume();
  // Until the end of the run, Ctrl-C or failure. An Error: a file could not be written.
  Result<Summary> run();

 private:
  // Until the end or Ctrl-C. Answers with why the world failed, or "".
  Result<std::optional<Error>> drive();  // nothing: the run ended, or was interrupted
  bool is_cut() const;
  bool is_over() const;
  void between_events();
  bool checkpoint();           // false: none is written
  void checkpoint_if_asked();  // by SIGUSR1
  Status write_checkpoint();
  Status conclude(Summary&);
  Status score_cut(Summary&);
  void tell_status(const char* state);

  const Job& job_;
  const Summary blank_;
  Simulation& simulation_;
  const RunFolder* folder_;
  RunLog log_;
  std::optional<StatusFile> status_;  // if there is a folder
  ModelFiles models_;
  std::function<bool(Round)> stop_;
  std::optional<double> until_s_;
  CheckpointRequests requests_;
  bool open_ = false;
  Round checkpointed_ = 0;  // rounds done at the last one
  std::uint64_t events_ = 0;
};

}  // namespace longhaul::run
