#include "longhaul/flow/chains.h"

#include <gtest/gtest.h>

#include <set>

#include "longhaul/flow/testing/wans.h"
#include "longhaul/flow/tree_load.h"

namespace longhaul::flow {
namespace {

using testing::equal_sites;

std::set<SitePair> hops_of(const TwoTrees& trees) {
  std::set<SitePair> hops;
  for (std::uint32_t site = 0; site < trees.reduce_to.size(); ++site) {
    if (site == trees.root) continue;
    hops.insert({site, trees.reduce_to[site]});
    hops.insert({trees.spread_from[site], site});
  }
  return hops;
}

// All trees go over n pairs of sites, one from each and one to each, and load them alike.
TEST(Chains, OneConnectionAtEachPort) {
  for (const std::size_t n : {3u, 4u, 7u}) {
    const Wan wan = equal_sites(n, 1e6);
    const Capacities at(wan);
    const Chains chains = plan_chains(wan, at, 0);
    ASSERT_EQ(chains.trees.size(), n);
    std::set<SitePair> hops;
    std::set<std::uint32_t> roots, from, to;
    TreeLoad load(at);
    for (const TwoTrees& trees : chains.trees) {
      hops.merge(hops_of(trees));
      roots.insert(trees.root);
      load.add(trees, 1.0 / double(n));
    }
    for (const auto& [a, b] : hops) {
      from.insert(a);
      to.insert(b);
    }
    EXPECT_EQ(hops.size(), n);
    EXPECT_EQ(roots.size(), n);
    EXPECT_EQ(from.size(), n);
    EXPECT_EQ(to.size(), n);
    EXPECT_NEAR(load.fullest() * 1e6, 2.0 * double(n - 1) / double(n), 1e-9);
  }
}

// Thin pairs are left out. The chain to a root leaves out the hop from it, that from it the hop to
// it: one of them is the short one, to 0, for the roots at its ends, and with them ways are
// longest.
TEST(Chains, TheBestCircleAndItsLongestWay) {
  Wan wan = equal_sites(4, 1e6);
  wan.usual.delay_s = 0.01;
  for (const SitePair& thin : {SitePair{0, 1}, {1, 2}, {2, 3}})
    wan.pairs[thin] = {.rate = 1e5, .delay_s = 0.01};
  for (const std::uint32_t from : {1u, 2u, 3u})
    wan.pairs[{from, 0}] = {.rate = 1e6, .delay_s = 2e-3};
  const Chains chains = plan_chains(wan, Capacities(wan), 1000);
  for (const TwoTrees& trees : chains.trees)
    for (const auto& hop : hops_of(trees)) EXPECT_FALSE(wan.pairs.contains(hop) && hop.second != 0);
  EXPECT_NEAR(chains.latency, 5 * 11e-3 + 3e-3, 1e-9);
}

}  // namespace
}  // namespace longhaul::flow
