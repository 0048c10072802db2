#include "longhaul/flow/arborescence.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <limits>

namespace longhaul::flow {
namespace {

using Matrix = std::vector<double>;

Matrix any_costs(std::uint32_t nodes, int most) {
  Matrix costs(std::size_t(nodes) * nodes);
  for (double& cost : costs) cost = *rc::gen::inRange(0, most);
  return costs;
}

double cost(const Parents& parents, const Matrix& costs) {
  double sum = 0;
  for (std::uint32_t v = 0; v < parents.size(); ++v)
    if (parents[v] != v) sum += costs[parents[v] * parents.size() + v];
  return sum;
}

bool is_tree(const Parents& parents, std::uint32_t root) {
  for (std::uint32_t v = 0; v < parents.size(); ++v) {
    std::uint32_t at = v;
    for (std::size_t step = 0; step < parents.size() && at != root; ++step) at = parents[at];
    if (at != root || (parents[v] == v) != (v == root)) return false;
  }
  return true;
}

// By trying all that could be.
double least(const Matrix& costs, std::uint32_t nodes, std::uint32_t root) {
  double least = std::numeric_limits<double>::infinity();
  Parents parents(nodes, 0);
  parents[root] = root;
  const auto next = [&] {
    for (std::uint32_t v = 0; v < nodes; ++v) {
      if (v == root) continue;
      if (++parents[v] < nodes) return true;
      parents[v] = 0;
    }
    return false;
  };
  do {
    if (is_tree(parents, root)) least = std::min(least, cost(parents, costs));
  } while (next());
  return least;
}

// Few different costs make many ties and cycles in cycles.
RC_GTEST_PROP(Arborescence, F1_NoTreeIsCheaper, ()) {
  const auto nodes = *rc::gen::inRange<std::uint32_t>(1, 6);
  const auto root = *rc::gen::inRange<std::uint32_t>(0, nodes);
  const Matrix costs = any_costs(nodes, *rc::gen::element(3, 10, 1000));
  const Parents parents = cheapest_arborescence(costs, nodes, root);
  RC_ASSERT(is_tree(parents, root));
  RC_ASSERT(cost(parents, costs) == least(costs, nodes, root));
}

RC_GTEST_PROP(Arborescence, F2_AFlatTreeIsATreeAndNoWorse, ()) {
  const auto nodes = *rc::gen::inRange<std::uint32_t>(2, 12);
  const Matrix costs = any_costs(nodes, 10), lengths = any_costs(nodes, 10);
  const double weight = *rc::gen::inRange(0, 5) / 4.0;
  const Parents cheap = cheapest_arborescence(costs, nodes, 0);
  Parents flat = cheap;
  make_shallower(flat, costs, lengths, weight);
  const auto both = [&](const Parents& parents) {
    double sum = cost(parents, costs);
    for (const double way : path_lengths(parents, lengths)) sum += weight * way;
    return sum;
  };
  RC_ASSERT(is_tree(flat, 0));
  RC_ASSERT(both(flat) <= both(cheap) * (1 + 1e-12));
}

// Where all edges cost the same, a star is shortest.
TEST(Arborescence, F2_OfEqualCostsItIsAStar) {
  const std::uint32_t nodes = 6;
  const Matrix ones(nodes * nodes, 1);
  Parents chain = {0, 0, 1, 2, 3, 4};
  EXPECT_EQ(path_lengths(chain, ones), (std::vector<double>{0, 1, 2, 3, 4, 5}));
  make_shallower(chain, ones, ones, 1e-3);
  EXPECT_EQ(chain, Parents(nodes, 0));
}

}  // namespace
}  // namespace longhaul::flow
