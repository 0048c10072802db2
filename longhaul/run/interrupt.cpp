#include "longhaul/run/interrupt.h"

#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <ctime>
#include <iterator>
#include <utility>

namespace longhaul::run {
namespace {

std::atomic<bool> asked = false;
std::atomic<int> guards = 0;
std::atomic<std::uint32_t> checkpoints = 0;
std::atomic<std::int64_t> asked_at_ms = 0;
static_assert(std::atomic<std::int64_t>::is_always_lock_free);

// All that follows is safe in a signal handler.
std::int64_t clock_ms() {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t(now.tv_sec) * 1000 + now.tv_nsec / 1'000'000;
}

// As by the default action, which the kernel leaves out for process 1.
void end_by(int number) {
  struct sigaction plain = {};
  plain.sa_handler = SIG_DFL;
  sigaction(number, &plain, nullptr);
  sigset_t only = {};
  sigemptyset(&only);
  sigaddset(&only, number);
  pthread_sigmask(SIG_UNBLOCK, &only, nullptr);
  raise(number);
  _exit(128 + number);
}

void on_stop(int number, siginfo_t* info, void*) {
  const int error = errno;
  const std::int64_t now = clock_ms();
  if (!asked) {
    if (guards == 0) end_by(number);
    asked_at_ms = now;
    asked = true;
  } else if (!repeats_stop(number, info->si_code, now - asked_at_ms)) {
    end_by(number);
  }
  errno = error;
}

void on_checkpoint(int) { ++checkpoints; }

}  // namespace

void watch_signals() {
  struct sigaction action = {};
  action.sa_flags = int(SA_RESTART | SA_SIGINFO);
  action.sa_sigaction = on_stop;
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction before = {};
    sigaction(number, nullptr, &before);
    if (number != SIGHUP || before.sa_handler != SIG_IGN) sigaction(number, &action, nullptr);
  }
  action.sa_flags = int(SA_RESTART);
  action.sa_handler = on_checkpoint;
  sigaction(SIGUSR1, &action, nullptr);
}

InterruptGuard::InterruptGuard() {
  for (std::size_t i = 0; i < std::size(kSignals); ++i)
    sigaction(kSignals[i], nullptr, &before_[i]);
  ++guards;
  watch_signals();  // in a program that has another main()
}

InterruptGuard::~InterruptGuard() {
  --guards;
  for (std::size_t i = 0; i < std::size(kSignals); ++i)
    sigaction(kSignals[i], &before_[i], nullptr);
}

bool interrupted() { return asked; }

bool repeats_stop(int signal, int code, std::int64_t since_ms) {
  if (code == SI_QUEUE) return true;  // pass_on()
  const bool is_terminal = signal == SIGINT && code == SI_KERNEL;
  return !is_terminal && since_ms <= InterruptGuard::kSameStopMs;
}

void forget_signals() {
  asked = false;
  guards = 0;
  checkpoints = 0;
}

void pass_on(int process, int signal) {
  if (sigqueue(process, signal, {}) != 0) (void)kill(process, signal);
}

bool CheckpointRequests::take() {
  const std::uint32_t now = checkpoints;
  return now != std::exchange(seen_, now);
}

}  // namespace longhaul::run
