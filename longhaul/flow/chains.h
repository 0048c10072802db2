#pragma once
// Trees along one circle through all sites, with one connection each way at each port: every root
// has a chain of the others towards it, and another away from it.
#include <algorithm>
#include <numeric>
#include <vector>

#include "longhaul/base/check.h"
#include "longhaul/flow/capacities.h"
#include "longhaul/flow/circle.h"
#include "longhaul/flow/forest.h"

namespace longhaul::flow {

struct Chains {
  std::vector<TwoTrees> trees;  // one pair for each root; shares not set
  double latency = 0;           // seconds of a piece on the longest path up and down
};

// Along the circle with the fastest slowest hop. `piece`: bytes, as rates count them. CHECKs
// that there are two sites.
inline Chains plan_chains(const Wan& wan, const Capacities& at, double piece) {
  LH_CHECK(at.sites > 1);
  const auto n = std::uint32_t(at.sites);
  const auto rate = [&](std::uint32_t from, std::uint32_t to) {
    return std::min({at.up[from], at.down[to], at.pair(from, to)});
  };
  const std::vector<std::uint32_t> order = best_circle(n, rate).order;
  const auto after = [&](std::uint32_t turn) { return order[(turn + 1) % n]; };
  Chains chains;
  std::vector<double> hops;  // from each turn to the next
  for (std::uint32_t turn = 0; turn < n; ++turn)
    hops.push_back(wan.pair(order[turn], after(turn)).delay_s +
                   piece / rate(order[turn], after(turn)));
  const double round = std::accumulate(hops.begin(), hops.end(), 0.0);
  for (std::uint32_t at_root = 0; at_root < n; ++at_root) {
    const std::uint32_t root = order[at_root];
    const double out = hops[at_root], in = hops[(at_root + n - 1) % n];
    chains.latency = std::max(chains.latency, round - out + round - in);
    TwoTrees trees{root, std::vector<std::uint32_t>(n), std::vector<std::uint32_t>(n), 0};
    for (std::uint32_t turn = 0; turn < n; ++turn) {
      const std::uint32_t site = order[turn], next = after(turn);
      trees.reduce_to[site] = site == root ? root : next;
      trees.spread_from[next] = next == root ? root : site;
    }
    chains.trees.push_back(std::move(trees));
  }
  return chains;
}

}  // namespace longhaul::flow
