#pragma once
// A model file is a program: it may never end, take all memory, or crash libtorch. So it is tried
// in a process of its own before this one loads it.
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>

#include "longhaul/base/result.h"
#include "longhaul/focus/messages.h"
#include "longhaul/run/child_processes.h"

namespace longhaul::run {

struct TrialLimits {
  double seconds = 0;  // of the processor; ten times as much by the clock
  double mbytes = 0;   // more than this process has already; 0: half of the machine's free memory
};

// Runs `body` in a copy of this process (ChildSpec::instead: no other thread may hold anything) and
// returns what it returns. Errors: that of the body; "WHAT took more than N s", "more than N MB",
// or crashed.
Status try_in_copy(const std::string& what, const TrialLimits&,
                   const std::function<Status()>& body);
// The same with a command. It gets `file` as one more argument, the path of a file with these
// bytes, and runs as run_trial(). Threads: any; an Error when it is asked to stop.
Status try_in_command(const std::string& what, const TrialLimits&, std::vector<std::string> command,
                      const std::string& file, std::stop_token);
// The process of a trial: it writes no files, reports the result of `body` to the process that
// started it, and ends.
[[noreturn]] void run_trial(const std::function<Status()>& body);

// Tries given models, one at a time, on a thread, while the node continues.
class GivenTrials {
 public:
  using Model = std::shared_ptr<const focus::GivenModel>;
  using Try = std::function<Status(const focus::GivenModel&, std::stop_token)>;
  // Both run on a thread of this object, `done` after `attempt`.
  GivenTrials(Try attempt, std::function<void()> done)
      : attempt_(std::move(attempt)), done_(std::move(done)) {}
  // The result of the model's trial. Nothing while it, or another model, is being tried: `done`
  // follows. Called by one thread.
  std::optional<Status> result(const Model&);

 private:
  const Try attempt_;
  const std::function<void()> done_;
  std::mutex mutex_;
  Model model_;
  std::optional<Status> result_;
  std::jthread thread_;  // the last member: it ends first
};

}  // namespace longhaul::run
