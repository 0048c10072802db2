#include "longhaul/sync/gossip/graph.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <tuple>

#include "longhaul/base/check.h"

namespace longhaul::sync::gossip {
namespace {

class GraphBuilder {
 public:
  explicit GraphBuilder(std::uint32_t n) : neighbours_(n) {}
  void join(std::uint32_t i, std::uint32_t j) {
    if (i == j) return;
    neighbours_[i].insert(j);
    neighbours_[j].insert(i);
  }
  bool are_joined(std::uint32_t i, std::uint32_t j) const { return neighbours_[i].contains(j); }
  std::size_t degree(std::uint32_t i) const { return neighbours_[i].size(); }
  Graph graph() const {
    Graph graph;
    for (const auto& set : neighbours_) graph.emplace_back(set.begin(), set.end());
    return graph;
  }

 private:
  std::vector<std::set<std::uint32_t>> neighbours_;
};

// Union-find: the number of the tree that node i is in.
std::uint32_t tree_of(std::vector<std::uint32_t>& parents, std::uint32_t i) {
  while (parents[i] != i) i = parents[i] = parents[parents[i]];
  return i;
}

}  // namespace

Graph ring(std::uint32_t n) {
  GraphBuilder builder(n);
  for (std::uint32_t i = 0; i < n; ++i) builder.join(i, (i + 1) % n);
  return builder.graph();
}

Graph torus(std::uint32_t n) {
  std::uint32_t rows = 1;
  for (std::uint32_t r = 2; r * r <= n; ++r)
    if (n % r == 0) rows = r;
  const std::uint32_t columns = n / rows;
  GraphBuilder builder(n);
  for (std::uint32_t i = 0; i < n; ++i) {
    const std::uint32_t row = i / columns, column = i % columns;
    builder.join(i, row * columns + (column + 1) % columns);
    builder.join(i, (row + 1) % rows * columns + column);
  }
  return builder.graph();
}

Graph exponential(std::uint32_t n) {
  GraphBuilder builder(n);
  for (std::uint64_t hop = 1; hop < n; hop *= 2)
    for (std::uint32_t i = 0; i < n; ++i) builder.join(i, std::uint32_t((i + hop) % n));
  return builder.graph();
}

Graph complete(std::uint32_t n) {
  GraphBuilder builder(n);
  for (std::uint32_t i = 0; i < n; ++i)
    for (std::uint32_t j = i + 1; j < n; ++j) builder.join(i, j);
  return builder.graph();
}

// Each tree keeps a node with fewer than two neighbours, so that any two trees can still be joined:
// the bound on the degree leaves no node out.
Graph best_rate(std::uint32_t n, const Rates& rates, std::uint32_t degree) {
  LH_CHECK(degree >= 2);
  std::vector<std::tuple<double, std::uint32_t, std::uint32_t>> pairs;  // fastest first
  for (std::uint32_t i = 0; i < n; ++i)
    for (std::uint32_t j = i + 1; j < n; ++j)
      pairs.emplace_back(rates ? -std::min(rates(i, j), rates(j, i)) : 0.0, i, j);
  std::sort(pairs.begin(), pairs.end());
  GraphBuilder builder(n);
  std::vector<std::uint32_t> parents(n);
  std::iota(parents.begin(), parents.end(), 0u);
  for (const bool spanning : {true, false}) {
    for (const auto& [rate, i, j] : pairs) {
      if (builder.degree(i) >= degree || builder.degree(j) >= degree || builder.are_joined(i, j))
        continue;
      const std::uint32_t a = tree_of(parents, i), b = tree_of(parents, j);
      if (spanning && a == b) continue;
      parents[a] = b;
      builder.join(i, j);
    }
  }
  return builder.graph();
}

Graph make_graph(std::string_view kind, std::uint32_t n, const Rates& rates, std::uint32_t degree) {
  if (kind == "torus") return torus(n);
  if (kind == "exponential") return exponential(n);
  if (kind == "complete") return complete(n);
  if (kind == "best_rate") return best_rate(n, rates, degree);
  LH_CHECK(kind == "ring");
  return ring(n);
}

double metropolis(const Graph& graph, std::uint32_t i, std::uint32_t j) {
  return 1.0 / double(1 + std::max(graph[i].size(), graph[j].size()));
}

}  // namespace longhaul::sync::gossip
