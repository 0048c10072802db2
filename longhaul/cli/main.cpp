#include <cstdio>
#include <cstdlib>

#include "longhaul/cli/cli.h"
#include "longhaul/run/interrupt.h"

int main(int argc, char** argv) {
  longhaul::run::watch_signals();
  const int code = longhaul::cli::run(argc, argv);
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || defined(LONGHAUL_ORDERLY_EXIT)
  return code;  // leaks are looked for, and the exit code of a report is set, by exit()
#else
  // Nothing is left that destructors of static objects have to do. Those of libtorch's tables of
  // operators would take a sixth of what a short run takes.
  (void)std::fflush(nullptr);
  std::_Exit(code);
#endif
}
