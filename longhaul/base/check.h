#pragma once
// LH_CHECK states what must hold if *our* code is right; it stays on in release builds.
// What the network, a file or a user may do wrong is a Result (base/result.h), never a check.

namespace longhaul {

// Names the place and the condition on standard error, and aborts.
[[noreturn]] void check_failed(const char* file, int line, const char* condition);

}  // namespace longhaul

#define LH_CHECK(condition) \
  ((condition) ? (void)0 : ::longhaul::check_failed(__FILE__, __LINE__, #condition))
