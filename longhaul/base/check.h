#pragma once
// LH_CHECK states what must hold if *our* code is right; it stays on in release builds.
// What the network, a file or a user may do wrong is a Result (base/result.h), never a check.
#include <cstdio>
#include <cstdlib>

#define LH_CHECK(condition)                                                                  \
  ((condition)                                                                               \
       ? (void)0                                                                             \
       : (std::fprintf(stderr, "%s:%d: check failed: %s\n", __FILE__, __LINE__, #condition), \
          std::abort()))
