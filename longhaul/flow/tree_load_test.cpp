#include "longhaul/flow/tree_load.h"

#include <gtest/gtest.h>

#include "longhaul/flow/testing/wans.h"

namespace longhaul::flow {
namespace {

// Three sites in a row below site 0: the middle one sends for two and passes the total on.
const TwoTrees kRow{0, {0, 0, 1}, {0, 0, 1}, 1};

TEST(TreeLoad, TheBusiestLinkIsFound) {
  Wan wan = testing::equal_sites(3, 10);
  wan.pairs[{0, 1}].rate = 4;
  const Capacities at(wan);
  TreeLoad load(at);
  load.add(kRow, 2);
  EXPECT_DOUBLE_EQ(load.fullest(), 2. / 4) << "the total passes 0 to 1, and the uplink of 1 twice";
  load.add({1, {1, 1, 1}, {1, 1, 1}, 1}, 1);
  EXPECT_DOUBLE_EQ(load.fullest(), 3. / 4);
}

TEST(TreeLoad, ASharedLinkCarriesAllItsPairs) {
  Wan wan = testing::equal_sites(3, 1000);
  wan.shared.push_back({"sea", 1, {{1, 0}, {2, 1}}});
  const Capacities at(wan);
  TreeLoad load(at);
  load.add({0, {0, 0, 1}, {0, 0, 0}, 1});
  EXPECT_DOUBLE_EQ(load.fullest(), 2);
}

TEST(TreeLoad, WhatIsFullIsDear) {
  const Capacities at(testing::equal_sites(3, 10));
  TreeLoad load(at);
  load.add(kRow);
  const std::vector<double> prices = load.prices(12);
  EXPECT_GT(prices[1 * 3 + 0], prices[2 * 3 + 0]);
}

}  // namespace
}  // namespace longhaul::flow
