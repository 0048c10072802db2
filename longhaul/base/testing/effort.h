#pragma once
// How many of their cases exhaustive tests try.
#include <cstdint>

namespace longhaul::testing {

// Of every kStride cases one. Under a sanitizer, many times slower, a share of the cases is run
// with the memory errors in sight; all of them are run without. scripts/mutants, which runs them
// once for each mutant, asks for the share too. Odd, so that of what alternates both are tried.
#if defined(__has_feature)  // clang
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define LONGHAUL_SANITIZED 1
#endif
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)  // g++
#define LONGHAUL_SANITIZED 1
#endif
#if defined(LONGHAUL_SANITIZED) || defined(LONGHAUL_SHARE)
inline constexpr std::uint64_t kStride = 41;
#else
inline constexpr std::uint64_t kStride = 1;
#endif

}  // namespace longhaul::testing
