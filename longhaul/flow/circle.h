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
  double slowest = 0;                // least rate of its hops
  double sum = 0;  // sum of the rates of all hops; unlimited hops count as the fastest other hop
};

// Largest n for which the best of all circles is found (Bellman 1962, Held and Karp 1962). Above
// it, a good circle is found: from each place to the fastest next, improved by 2-opt (Croes 1958)
// within a limit of work.
inline constexpr std::uint32_t kMaxExactCircle = 12;

// n > 0. Equal arguments give the same circle; if all rates are equal, 0 1 2 ...
Circle best_circle(std::uint32_t n, const HopRate&);

}  // namespace longhaul::flow
