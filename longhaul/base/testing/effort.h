#pragma once
// How many of their cases exhaustive tests try.
#include <cstdint>

namespace longhaul::testing {

// Tests that go through many cases try one in kStride of them. `make nightly` tries all, optimised;
// under a sanitizer, many times slower, a share. The gate compiles without optimisation, slower
// still, and tries fewer: where kGate is true, and of cases(n). scripts/mutants, which runs the
// tests once for each mutant, asks for the gate's cases, or for nightly's under a sanitizer. Odd,
// so that both of two alternating cases are tried.
#if defined(__has_feature)  // clang
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define LONGHAUL_SANITIZED 1
#endif
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)  // g++
#define LONGHAUL_SANITIZED 1
#endif
#if defined(LONGHAUL_GATE)
inline constexpr std::uint64_t kStride = 97;
#elif defined(LONGHAUL_SANITIZED) || defined(LONGHAUL_SHARE)
inline constexpr std::uint64_t kStride = 41;
#else
inline constexpr std::uint64_t kStride = 1;
#endif
#if defined(LONGHAUL_GATE)
inline constexpr bool kGate = true;
#else
inline constexpr bool kGate = false;
#endif

// How many of `all` cases drawn at random: all, in the gate one in five, rounded up.
constexpr std::uint64_t cases(std::uint64_t all) { return kGate ? (all + 4) / 5 : all; }

}  // namespace longhaul::testing
