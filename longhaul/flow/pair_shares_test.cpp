#include "longhaul/flow/pair_shares.h"

#include <cmath>

#include <gtest/gtest.h>

#include "longhaul/flow/testing/wans.h"

namespace longhaul::flow {
namespace {

std::vector<bool> all_pairs_of(std::size_t n) {
  std::vector<bool> busy(n * n, true);
  for (std::size_t site = 0; site < n; ++site) busy[site * n + site] = false;
  return busy;
}

// Site 2 is thin both ways: its pairs get a half of its rate, the others what that leaves.
TEST(PairShares, PairsShareTheLinksOfTheirSites) {
  Wan wan = testing::equal_sites(3, 100);
  wan.sites[2].up = wan.sites[2].down = 20;
  const auto shares = pair_shares(Capacities(wan), all_pairs_of(3));
  EXPECT_EQ(shares, (std::vector<double>{0, 90, 10, 90, 0, 10, 10, 10, 0}));
}

TEST(PairShares, ThosePairsThatAreIdleLeaveTheirShare) {
  std::vector<bool> busy(9);
  busy[0 * 3 + 1] = true;
  const auto shares = pair_shares(Capacities(testing::equal_sites(3, 100)), busy);
  EXPECT_EQ(shares, (std::vector<double>{0, 100, 0, 0, 0, 0, 0, 0, 0}));
}

TEST(PairShares, PairsAndSharedLinksLimit) {
  Wan wan = testing::equal_sites(3, 100);
  wan.pairs[{0, 1}].rate = 5;
  wan.shared.push_back({"shared", 40, {{1, 0}, {2, 0}}});
  const auto shares = pair_shares(Capacities(wan), all_pairs_of(3));
  EXPECT_EQ(shares, (std::vector<double>{0, 5, 50, 20, 0, 50, 20, 80, 0}));
}

TEST(PairShares, WhatNothingLimitsIsUnlimited) {
  Wan wan;
  wan.sites.resize(2);
  EXPECT_TRUE(std::isinf(pair_shares(Capacities(wan), all_pairs_of(2))[1]));
}

}  // namespace
}  // namespace longhaul::flow
