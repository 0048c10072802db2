#include "longhaul/base/check.h"

#include <cstdio>
#include <cstdlib>

namespace longhaul {

void check_failed(const char* file, int line, const char* condition) {
  std::fprintf(stderr, "%s:%d: check failed: %s\n", file, line, condition);
  std::abort();
}

}  // namespace longhaul
