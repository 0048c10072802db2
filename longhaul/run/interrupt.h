#pragma once
// Ctrl-C: the first asks the run to end cleanly, the second kills the process.

namespace longhaul::run {

// Installs the handlers for SIGINT and SIGTERM while it lives. One at a time.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;
};

bool interrupted();

}  // namespace longhaul::run
