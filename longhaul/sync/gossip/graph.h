#pragma once
// The graphs along which workers mix their models, with the weights of their edges.
#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <numeric>
#include <set>
#include <string_view>
#include <tuple>
#include <vector>

#include "longhaul/base/check.h"
#include "longhaul/core/types.h"

namespace longhaul::sync::gossip {

// The neighbours of each of n nodes, ascending, without the node itself. Symmetric and connected.
using Graph = std::vector<std::set<std::uint32_t>>;
// Bytes per second from one node to another. Null: equal for all pairs.
using Rates = std::function<double(std::uint32_t from, std::uint32_t to)>;

inline void join(Graph& graph, std::uint32_t i, std::uint32_t j) {
  if (i == j) return;
  graph[i].insert(j);
  graph[j].insert(i);
}

// Union-find: returns the number of the tree that contains node i.
inline std::uint32_t tree_of(std::vector<std::uint32_t>& parents, std::uint32_t i) {
  while (parents[i] != i) i = parents[i] = parents[parents[i]];
  return i;
}

inline Graph ring(std::uint32_t n) {
  Graph graph(n);
  for (std::uint32_t i = 0; i < n; ++i) join(graph, i, (i + 1) % n);
  return graph;
}

// Returns a grid that is closed in both directions, as square as n allows; for a prime n, a ring.
inline Graph torus(std::uint32_t n) {
  std::uint32_t rows = 1;
  for (std::uint32_t r = 2; r * r <= n; ++r)
    if (n % r == 0) rows = r;
  const std::uint32_t columns = n / rows;
  Graph graph(n);
  for (std::uint32_t i = 0; i < n; ++i) {
    const std::uint32_t row = i / columns, column = i % columns;
    join(graph, i, row * columns + (column + 1) % columns);
    join(graph, i, (row + 1) % rows * columns + column);
  }
  return graph;
}

// Returns the graph with edges from i to i + 2^k mod n, for all 2^k < n: degree up to 2 log2(n),
// diameter at most log2(n).
//   Assran et al., "Stochastic gradient push", ICML 2019, section 4; here in both directions.
inline Graph exponential(std::uint32_t n) {
  Graph graph(n);
  for (std::uint64_t hop = 1; hop < n; hop *= 2)
    for (std::uint32_t i = 0; i < n; ++i) join(graph, i, std::uint32_t((i + hop) % n));
  return graph;
}

inline Graph complete(std::uint32_t n) {
  Graph graph(n);
  for (std::uint32_t i = 0; i < n; ++i)
    for (std::uint32_t j = i + 1; j < n; ++j) join(graph, i, j);
  return graph;
}

// Returns the fastest tree that spans all nodes, and the fastest of all other pairs, with up to
// `degree` (at least 2) neighbours per node. The rate of a pair is the lower one of its two
// directions; pairs of equal rate are taken in the order of their nodes. Each tree keeps a node
// with fewer than two neighbours, so that any two trees can still be joined: the bound on the
// degree leaves no node out.
inline Graph best_rate(std::uint32_t n, const Rates& rates, std::uint32_t degree) {
  LH_CHECK(degree >= 2);
  std::vector<std::tuple<double, std::uint32_t, std::uint32_t>> pairs;  // fastest first
  for (std::uint32_t i = 0; i < n; ++i)
    for (std::uint32_t j = i + 1; j < n; ++j)
      pairs.emplace_back(rates ? -std::min(rates(i, j), rates(j, i)) : 0.0, i, j);
  std::ranges::sort(pairs);
  Graph graph(n);
  std::vector<std::uint32_t> parents(n);
  std::iota(parents.begin(), parents.end(), 0u);
  for (const bool spanning : {true, false}) {
    for (const auto& [rate, i, j] : pairs) {
      if (graph[i].size() >= degree || graph[j].size() >= degree || graph[i].contains(j)) continue;
      const std::uint32_t a = tree_of(parents, i), b = tree_of(parents, j);
      if (spanning && a == b) continue;
      parents[a] = b;
      join(graph, i, j);
    }
  }
  return graph;
}

// Returns a graph by its name in job files: "ring", "torus", "exponential", "complete",
// "best_rate".
inline Graph make_graph(std::string_view kind, std::uint32_t n, const Rates& rates,
                        std::uint32_t degree) {
  if (kind == "torus") return torus(n);
  if (kind == "exponential") return exponential(n);
  if (kind == "complete") return complete(n);
  if (kind == "best_rate") return best_rate(n, rates, degree);
  LH_CHECK(kind == "ring");
  return ring(n);
}

// Returns W_ij = 1 / (1 + max(d_i, d_j)) of an edge. With W_ii = 1 - sum_j W_ij the matrix is
// symmetric and doubly stochastic.
//   Xiao and Boyd, "Fast linear iterations for distributed averaging", Systems and Control Letters
//   2004, section 4 (Metropolis-Hastings weights).
inline double metropolis(const Graph& graph, std::uint32_t i, std::uint32_t j) {
  return 1.0 / double(1 + std::max(graph[i].size(), graph[j].size()));
}

// Returns the neighbours of `self` and W_ij, in the graph of `workers` (ascending ranks).
inline std::map<Rank, double> weights(std::string_view kind, std::uint32_t degree,
                                      const std::function<double(Rank, Rank)>& rates,
                                      const std::vector<Rank>& workers, Rank self) {
  Rates by_number;
  if (rates)
    by_number = [&](std::uint32_t from, std::uint32_t to) {
      return rates(workers[from], workers[to]);
    };
  const Graph graph = make_graph(kind, std::uint32_t(workers.size()), by_number, degree);
  const auto found = std::ranges::lower_bound(workers, self);
  LH_CHECK(found != workers.end() && *found == self);
  const auto i = std::uint32_t(found - workers.begin());
  std::map<Rank, double> weights;
  for (const std::uint32_t j : graph[i]) weights[workers[j]] = metropolis(graph, i, j);
  return weights;
}

}  // namespace longhaul::sync::gossip
