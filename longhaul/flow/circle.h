#pragma once
// The best order of a ring for known rates between nodes: the slowest hop decides, because all of a
// ring waits for it; then the sum of rates.
#include <cstdint>
#include <functional>
#include <vector>

namespace longhaul::flow {

// Bytes per second from one of n places to another; at least 0, infinite: unlimited.
using HopRate = std::function<double(std::uint32_t from, std::uint32_t to)>;

struct Circle {
  std::vector<std::uint32_t> order;  // begins with place 0
  double slowest = 0;                // of its hops
  double sum = 0;  // of the rates of all hops, unlimited ones as the fastest other
};

// Up to so many the best of all circles is found (Bellman 1962, Held and Karp 1962); beyond, a good
// one: from place 0 always to the fastest next, improved by 2-opt (Croes 1958) while that helps and
// the work is bearable.
inline constexpr std::uint32_t kMaxExactCircle = 12;

// n > 0. The same rates give the same circle; where all are alike, 0 1 2 ...
Circle best_circle(std::uint32_t n, const HopRate&);

}  // namespace longhaul::flow
