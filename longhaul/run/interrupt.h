#pragma once
// Signals that ask something of the program: INT, TERM and HUP to stop, USR1 to take a checkpoint.
#include <csignal>
#include <cstdint>

namespace longhaul::run {

// Call it first in main(): of process 1, as in a container, the kernel drops signals without a
// handler. From then on a stop signal ends the process at once, but for those that an
// InterruptGuard takes. An ignored HUP (nohup) stays ignored.
void watch_signals();

// While it lives the first stop signal asks the run to end cleanly. A second one ends the process
// at once. Ctrl-C at the terminal is always a second one. Other signals are not within kSameStopMs
// of the first: systemd, timeout and shells signal twice. Signals from pass_on() never are. Leaves
// the handlers of before behind. May lie within the life of another; one thread makes them.
class InterruptGuard {
 public:
  static constexpr std::int64_t kSameStopMs = 1000;
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

 private:
  static constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1};
  struct sigaction before_[4] = {};
};

bool interrupted();
// Whether a stop signal is a part of a stop that is under way. `code`: its si_code; `since_ms`:
// after the first.
bool repeats_stop(int signal, int code, std::int64_t since_ms);
// Begins a command of its own, in a copy of the process (fork) or after another command: what was
// asked before, and its guards, do not hold.
void forget_signals();
// Sends a child process the signal, marked as one that this process passes on.
void pass_on(int process, int signal);

// Whether USR1 has come after the previous call.
class CheckpointRequests {
 public:
  bool take();

 private:
  std::uint32_t seen_ = 0;
};

}  // namespace longhaul::run
