#pragma once
// What the benchmarks share.
#include <errno.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <vector>

#include "longhaul/base/result.h"

namespace longhaul::bench {

[[noreturn]] inline void give_up(const std::string& why) {
  std::fprintf(stderr, "%s: %s\n", program_invocation_short_name, why.c_str());
  std::exit(2);
}

template <class T>
T must(Result<T> result) {
  if (!result) give_up(result.error().what);
  return std::move(*result);
}

inline double seconds_of(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// The value that `share` of all values are below or at; 0.5: the median.
inline double quantile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  return values[std::min(values.size() - 1, std::size_t(share * double(values.size())))];
}

inline double median(const std::vector<double>& values) { return quantile(values, 0.5); }

}  // namespace longhaul::bench
