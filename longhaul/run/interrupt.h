#pragma once
// Ctrl-C: the first asks the run to end cleanly, the second kills the process.
#include <csignal>

namespace longhaul::run {

// Installs the handlers for SIGINT and SIGTERM while it lives. May lie within the life of another,
// whose handlers it leaves behind; after a Ctrl-C it leaves the default action, which ends the
// process. One thread makes them.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

 private:
  struct sigaction before_int_ = {}, before_term_ = {};
};

bool interrupted();

}  // namespace longhaul::run
