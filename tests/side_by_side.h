#pragma once
// For tests that wait more than they compute: their cases at the same time.
#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "longhaul/base/testing/effort.h"

namespace longhaul::conformance {

// Under a sanitizer they compute more.
inline constexpr std::size_t kAtOnce = longhaul::testing::kStride > 1 ? 4 : 8;

// body(one) for each of `cases`, up to kAtOnce of them at a time, each on a thread of its own.
// GoogleTest takes what any thread expects; SCOPED_TRACE holds for the thread it stands in.
template <class Case, class Body>
void side_by_side(const std::vector<Case>& cases, const Body& body) {
  std::atomic<std::size_t> next = 0;
  std::vector<std::jthread> threads;
  for (std::size_t i = 0; i < std::min(kAtOnce, cases.size()); ++i)
    threads.emplace_back([&] {
      for (std::size_t own; (own = next++) < cases.size();) body(cases[own]);
    });
}

}  // namespace longhaul::conformance
