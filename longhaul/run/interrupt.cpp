#include "longhaul/run/interrupt.h"

namespace longhaul::run {
namespace {

volatile std::sig_atomic_t asked = 0;

void on_signal(int) { asked = 1; }

}  // namespace

InterruptGuard::InterruptGuard() {
  struct sigaction action = {};
  action.sa_handler = on_signal;
  action.sa_flags = int(SA_RESETHAND);  // the second signal finds the default action
  sigaction(SIGINT, &action, &before_int_);
  sigaction(SIGTERM, &action, &before_term_);
}

InterruptGuard::~InterruptGuard() {
  if (interrupted()) before_int_.sa_handler = before_term_.sa_handler = SIG_DFL;
  sigaction(SIGINT, &before_int_, nullptr);
  sigaction(SIGTERM, &before_term_, nullptr);
}

bool interrupted() { return asked != 0; }

}  // namespace longhaul::run
