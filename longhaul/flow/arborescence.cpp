#include "longhaul/flow/arborescence.h"

#include <algorithm>
#include <limits>

#include "longhaul/base/check.h"

namespace longhaul::flow {
namespace {

constexpr std::uint32_t kNoNode = ~std::uint32_t{0};
constexpr double kWorthIt = 1e-9;  // least saving by another parent, as a share of the price
constexpr int kMaxPasses = 8;      // passes of make_shallower(); each looks at every node once

// The cycles among parents that form no tree yet.
struct Cycles {
  std::vector<std::uint32_t> of;  // by node, its cycle; kNoNode: on none
  std::uint32_t count = 0;
};

Cycles find_cycles(const Parents& parents) {
  const auto nodes = std::uint32_t(parents.size());
  Cycles cycles{std::vector<std::uint32_t>(nodes, kNoNode)};
  std::vector<std::uint32_t> seen(nodes, kNoNode);  // by node, the start that reached it
  for (std::uint32_t start = 0; start < nodes; ++start) {
    std::uint32_t at = start;
    while (seen[at] == kNoNode) {
      seen[at] = start;
      at = parents[at];
    }
    if (seen[at] != start || parents[at] == at) continue;  // known already, or the root
    for (; cycles.of[at] == kNoNode; at = parents[at]) cycles.of[at] = cycles.count;
    ++cycles.count;
  }
  return cycles;
}

// The graph with each cycle contracted into one node.
struct Contracted {
  struct Edge {
    std::uint32_t from = 0, to = 0;  // in the graph before
  };
  std::vector<std::uint32_t> node;  // by node of the graph before
  std::uint32_t nodes = 0;
  std::vector<double> costs;
  std::vector<Edge> edges;  // the edge that each stands for
};

// Returns the contracted graph. An edge into a cycle replaces the one there, so its cost is the
// difference.
Contracted contract(std::span<const double> costs, const Parents& parents, const Cycles& cycles) {
  const auto nodes = std::uint32_t(parents.size());
  Contracted to{{}, cycles.count, {}, {}};
  for (std::uint32_t v = 0; v < nodes; ++v)
    to.node.push_back(cycles.of[v] == kNoNode ? to.nodes++ : cycles.of[v]);
  to.costs.assign(std::size_t(to.nodes) * to.nodes, std::numeric_limits<double>::infinity());
  to.edges.resize(to.costs.size());
  for (std::uint32_t a = 0; a < nodes; ++a)
    for (std::uint32_t b = 0; b < nodes; ++b) {
      if (to.node[a] == to.node[b]) continue;
      const double instead = cycles.of[b] == kNoNode ? 0 : costs[parents[b] * nodes + b];
      const double cost = costs[a * nodes + b] - instead;
      const std::size_t at = std::size_t(to.node[a]) * to.nodes + to.node[b];
      if (cost >= to.costs[at]) continue;
      to.costs[at] = cost;
      to.edges[at] = {a, b};
    }
  return to;
}

// Returns all nodes, each after its parent.
std::vector<std::uint32_t> in_order(const Parents& parents) {
  std::vector<std::uint32_t> order, path;
  std::vector<bool> known(parents.size());
  for (std::uint32_t v = 0; v < parents.size(); ++v) {
    std::uint32_t at = v;
    for (; !known[at] && parents[at] != at; at = parents[at]) path.push_back(at);
    if (!known[at]) path.push_back(at);  // the root
    for (; !path.empty(); path.pop_back()) {
      known[path.back()] = true;
      order.push_back(path.back());
    }
  }
  return order;
}

std::vector<double> ways_in(const std::vector<std::uint32_t>& order, const Parents& parents,
                            std::span<const double> lengths) {
  std::vector<double> path_lengths(parents.size());
  for (const std::uint32_t v : order)
    if (const std::uint32_t u = parents[v]; u != v)
      path_lengths[v] = path_lengths[u] + lengths[std::size_t(u) * parents.size() + v];
  return path_lengths;
}

// Returns the node and all nodes below it.
std::vector<bool> those_below(std::uint32_t node, const std::vector<std::uint32_t>& order,
                              const Parents& parents) {
  std::vector<bool> below(parents.size());
  for (const std::uint32_t v : order) below[v] = v == node || below[parents[v]];
  return below;
}

}  // namespace

Parents cheapest_arborescence(std::span<const double> costs, std::uint32_t nodes,
                              std::uint32_t root) {
  LH_CHECK(root < nodes && costs.size() == std::size_t(nodes) * nodes);
  Parents parents(nodes, root);
  for (std::uint32_t v = 0; v < nodes; ++v) {
    if (v == root) continue;
    for (std::uint32_t u = 0, best = kNoNode; u < nodes; ++u)
      if (u != v && (best == kNoNode || costs[u * nodes + v] < costs[best * nodes + v]))
        parents[v] = best = u;
  }
  const Cycles cycles = find_cycles(parents);
  if (cycles.count == 0) return parents;
  const Contracted small = contract(costs, parents, cycles);
  const Parents inner = cheapest_arborescence(small.costs, small.nodes, small.node[root]);
  for (std::uint32_t v = 0; v < small.nodes; ++v) {
    if (inner[v] == v) continue;
    const auto& [from, to] = small.edges[std::size_t(inner[v]) * small.nodes + v];
    parents[to] = from;
  }
  return parents;
}

std::vector<double> path_lengths(const Parents& parents, std::span<const double> lengths) {
  return ways_in(in_order(parents), parents, lengths);
}

void make_shallower(Parents& parents, std::span<const double> costs,
                    std::span<const double> lengths, double weight) {
  const auto nodes = std::uint32_t(parents.size());
  auto order = in_order(parents);
  auto way = ways_in(order, parents, lengths);
  // Price of hanging `v`, and `moved` nodes with it, under `u`.
  const auto price = [&](std::uint32_t u, std::uint32_t v, double moved) {
    return costs[u * nodes + v] + weight * moved * (way[u] + lengths[u * nodes + v]);
  };
  bool changed = true;
  for (int pass = 0; pass < kMaxPasses && changed; ++pass) {
    changed = false;
    for (std::uint32_t v = 0; v < nodes; ++v) {
      if (parents[v] == v) continue;
      const std::vector<bool> below = those_below(v, order, parents);
      const auto moved = double(std::count(below.begin(), below.end(), true));
      std::uint32_t best = parents[v];
      double least = price(best, v, moved) * (1 - kWorthIt);
      for (std::uint32_t u = 0; u < nodes; ++u) {
        if (below[u] || price(u, v, moved) >= least) continue;
        best = u;
        least = price(u, v, moved);
      }
      if (best == parents[v]) continue;
      changed = true;
      parents[v] = best;
      order = in_order(parents);
      way = ways_in(order, parents, lengths);
    }
  }
}

}  // namespace longhaul::flow
