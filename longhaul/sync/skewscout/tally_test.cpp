#include "longhaul/sync/skewscout/tally.h"

#include <gtest/gtest.h>

#include <set>

#include "longhaul/base/rng.h"

namespace longhaul::sync::skewscout {
namespace {

// skewscout_test.cpp, invariant 3
TEST(SkewScoutTally, EachHostHasOneVisitorAndAllPairsMeet) {
  for (std::uint32_t sites = 2; sites <= 11; ++sites) {
    std::set<std::pair<std::uint32_t, std::uint32_t>> met;
    for (Round m = 0; m < sites - 1; ++m) {
      std::set<std::uint32_t> hosts;
      for (std::uint32_t k = 0; k < sites; ++k) {
        const std::uint32_t host = host_of(k, m, sites);
        EXPECT_NE(host, k);
        hosts.insert(host);
        met.insert({k, host});
      }
      EXPECT_EQ(hosts.size(), sites);
    }
    EXPECT_EQ(met.size(), sites * (sites - 1));
  }
  EXPECT_EQ(host_of(0, 0, 3), 1u);
  EXPECT_EQ(host_of(1, 0, 3), 2u);
  EXPECT_EQ(host_of(2, 0, 3), 0u);
  EXPECT_EQ(host_of(0, 1, 3), 2u);
  EXPECT_EQ(host_of(2, 1, 3), 1u);
  EXPECT_EQ(host_of(1, 1, 3), 0u);
}

// skewscout_test.cpp, invariant 4
TEST(SkewScoutTally, TheLossIsZeroForEqualScoresAndNeverNegative) {
  Tally tally;
  for (Rank site : {0u, 1u}) {
    tally.home(site, {80, 100}, 10, 10);
    tally.visit(site, {80, 100});
  }
  EXPECT_EQ(tally.measured()->accuracy_loss, 0);
  EXPECT_EQ(tally.measured()->cost, 1) << "as much as bsp";
  EXPECT_DOUBLE_EQ(tally.measured()->home, 0.8);
  tally.visit(0, {95, 100});
  EXPECT_EQ(tally.measured()->accuracy_loss, 0) << "better abroad";
  tally.visit(1, {10, 50});
  EXPECT_NEAR(tally.measured()->accuracy_loss, (0.8 - 0.2) / 2, 1e-12);
}

TEST(SkewScoutTally, AScoreThatIsNotFiniteIsTheWholeLossAndOneOfNothingIsNone) {
  Tally tally;
  tally.home(0, {80, 100}, 1, 4);
  tally.visit(0, {0, 100, false});
  tally.home(1, {80, 100}, 1, 4);
  tally.visit(1, {0, 0});
  EXPECT_EQ(tally.measured()->accuracy_loss, 1);
  EXPECT_EQ(tally.measured()->cost, 0.25);
  Tally none;
  EXPECT_FALSE(none.measured());
  none.home(0, {0, 0}, 1, 4);
  none.visit(0, {1, 2});
  EXPECT_FALSE(none.measured());
}

// skewscout_test.cpp, invariant 8
TEST(SkewScoutTally, OrderAndDuplicatesOfReportsChangeNothing) {
  const auto report = [](Tally& tally, std::size_t i) {
    const Rank site = Rank(i / 2);
    if (i % 2)
      tally.home(site, {70 + i, 100}, 0.1 * double(i), 7 + i);
    else
      tally.visit(site, {50 + 3 * i, 100});
  };
  std::vector<std::size_t> order(10);
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  Tally expected;
  for (const std::size_t i : order) report(expected, i);
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    Random random(seed, {});
    random.shuffle(std::span(order));
    Tally tally;
    for (const std::size_t i : order) {
      report(tally, i);
      report(tally, order[random.below(order.size())]);
    }
    EXPECT_TRUE(tally.missing({0, 1, 2, 3, 4}).empty());
    EXPECT_EQ(tally.measured()->accuracy_loss, expected.measured()->accuracy_loss);
    EXPECT_EQ(tally.measured()->cost, expected.measured()->cost);
  }
}

TEST(SkewScoutTally, BothReportsOfASiteAreWaitedFor) {
  Tally tally;
  tally.home(0, {1, 2}, 1, 1);
  tally.visit(1, {1, 2});
  EXPECT_EQ(tally.missing({0, 1}), (std::vector<Rank>{0, 1}));
  tally.visit(0, {1, 2});
  EXPECT_EQ(tally.missing({0, 1}), (std::vector<Rank>{1}));
}

}  // namespace
}  // namespace longhaul::sync::skewscout
