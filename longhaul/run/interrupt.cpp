#include "longhaul/run/interrupt.h"

#include <csignal>

namespace longhaul::run {
namespace {

volatile std::sig_atomic_t asked = 0;

void on_signal(int) { asked = 1; }

void handle(void (*handler)(int)) {
  struct sigaction action = {};
  action.sa_handler = handler;
  // The second signal finds the default action, which ends the process.
  action.sa_flags = handler == SIG_DFL ? 0 : int(SA_RESETHAND);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

}  // namespace

InterruptGuard::InterruptGuard() { handle(on_signal); }
InterruptGuard::~InterruptGuard() { handle(SIG_DFL); }

bool interrupted() { return asked != 0; }

}  // namespace longhaul::run
