#include "longhaul/sync/gossip/graph.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <string>

#include "longhaul/base/testing/effort.h"

namespace longhaul::sync::gossip {
namespace {

constexpr const char* kGraphs[] = {"ring", "torus", "exponential", "complete", "best_rate"};

constexpr std::uint32_t kNextSize = longhaul::testing::kGate ? 3 : 1;

double uneven_rate(std::uint32_t from, std::uint32_t to) {
  return double((from * 37 + to * 61) % 23 + 1);
}

std::size_t reached_from_first(const Graph& graph) {
  std::set<std::uint32_t> reached = {0};
  std::vector<std::uint32_t> next = {0};
  while (!next.empty()) {
    const std::uint32_t i = next.back();
    next.pop_back();
    for (const std::uint32_t j : graph[i])
      if (reached.insert(j).second) next.push_back(j);
  }
  return reached.size();
}

TEST(GossipGraph, EachIsConnectedAndSymmetric) {
  for (const std::string kind : kGraphs) {
    for (std::uint32_t n = 1; n <= 40; n += kNextSize) {
      SCOPED_TRACE(kind + " of " + std::to_string(n));
      const Graph graph = make_graph(kind, n, uneven_rate, 3);
      ASSERT_EQ(graph.size(), n);
      EXPECT_EQ(reached_from_first(graph), n);
      for (std::uint32_t i = 0; i < n; ++i) {
        for (const std::uint32_t j : graph[i]) {
          EXPECT_NE(i, j);
          EXPECT_TRUE(graph[j].contains(i));
        }
      }
    }
  }
}

// The diagonal is at least 1 / (1 + d_i), so that no weight is negative.
TEST(GossipGraph, MetropolisWeightsAreDoublyStochastic) {
  for (const std::string kind : kGraphs) {
    for (std::uint32_t n = 1; n <= 40; n += kNextSize) {
      const Graph graph = make_graph(kind, n, uneven_rate, 4);
      std::vector<double> columns(n, 0);
      for (std::uint32_t i = 0; i < n; ++i) {
        double row = 0;
        for (const std::uint32_t j : graph[i]) {
          const double w = metropolis(graph, i, j);
          EXPECT_EQ(w, metropolis(graph, j, i));
          EXPECT_GT(w, 0);
          row += w;
          columns[j] += w;
        }
        EXPECT_GT(1 - row, 1.0 / double(2 + graph[i].size())) << kind << " of " << n;
        columns[i] += 1 - row;
      }
      for (const double column : columns) EXPECT_NEAR(column, 1, 1e-12) << kind << " of " << n;
    }
  }
}

TEST(GossipGraph, DegreesAreThoseOfTheirKind) {
  for (std::uint32_t n = 3; n <= 40; n += kNextSize) {
    for (const auto& of : ring(n)) EXPECT_EQ(of.size(), 2u);
    for (const auto& of : complete(n)) EXPECT_EQ(of.size(), n - 1);
    for (const auto& of : exponential(n))
      EXPECT_LE(double(of.size()), 2 * std::ceil(std::log2(double(n))));
    for (const std::uint32_t degree : {2u, 3u, 5u})
      for (const auto& of : best_rate(n, uneven_rate, degree)) EXPECT_LE(of.size(), degree);
  }
  for (const auto& of : torus(12)) EXPECT_GE(of.size(), 3u);  // 3 x 4
  EXPECT_EQ(torus(12)[0], (std::set<std::uint32_t>{1, 3, 4, 8}));
  EXPECT_EQ(torus(7), ring(7));
  EXPECT_EQ(exponential(8)[0], (std::set<std::uint32_t>{1, 2, 4, 6, 7}));
}

// Two clusters with fast links inside: one edge between them, the fastest that there is.
TEST(GossipGraph, BestRateTakesTheFastestTreeAndThenTheFastestPairs) {
  const auto rate = [](std::uint32_t from, std::uint32_t to) {
    if (from / 3 == to / 3) return from == 0 && to == 1 ? 40.0 : 100.0 + double(from + to);
    return from == 1 && to == 4 ? 10.0 : from == 4 && to == 1 ? 9.0 : 1.0;
  };
  const Graph tree = best_rate(6, rate, 2);
  std::size_t between = 0;
  for (std::uint32_t i = 0; i < 3; ++i)
    for (const std::uint32_t j : tree[i]) between += j >= 3;
  EXPECT_GE(between, 1u);
  const Graph graph = best_rate(6, rate, 3);
  EXPECT_EQ(graph[1], (std::set<std::uint32_t>{0, 2, 4}));
  EXPECT_TRUE(graph[2].contains(0));
  // Pairs of equal rate in the order of their nodes.
  EXPECT_EQ(best_rate(4, {}, 3)[0], (std::set<std::uint32_t>{1, 2, 3}));
}

TEST(GossipGraph, WeightsAreThoseOfTheGraphOfTheLiveWorkers) {
  const auto rates = [](Rank from, Rank to) { return from == 2 || to == 2 ? 1.0 : 10.0; };
  const auto ring = weights("ring", 2, {}, {1, 4, 6, 9}, 1);
  EXPECT_EQ(ring, (std::map<Rank, double>{{4, 1.0 / 3}, {9, 1.0 / 3}}));
  // Rank 2 is slow: it gets the one edge that it needs, and what is left.
  const auto slow = weights("best_rate", 2, rates, {0, 1, 2, 5}, 2);
  EXPECT_EQ(slow.size(), 2u);
  EXPECT_TRUE(weights("ring", 2, {}, {7}, 7).empty());
}

}  // namespace
}  // namespace longhaul::sync::gossip
