#include "longhaul/sync/skewscout/search.h"

#include <gtest/gtest.h>

namespace longhaul::sync::skewscout {
namespace {

const std::vector<double> kCosts = {0.60, 0.40, 0.25, 0.15, 0.10, 0.08, 0.06};

// The index that each of 20 travels has.
std::vector<std::uint32_t> indexes(const std::vector<double>& losses, std::uint32_t start = 0) {
  Search search(std::uint32_t(kCosts.size()), start, 10, {});
  std::vector<std::uint32_t> used;
  for (Round m = 0; m < 20; ++m) {
    used.push_back(search.index());
    search.measured(m, losses[used.back()], kCosts[used.back()]);
  }
  return used;
}

// (index, so many times) ...
std::vector<std::uint32_t> times(std::vector<std::pair<std::uint32_t, int>> runs) {
  std::vector<std::uint32_t> all;
  for (const auto& [index, count] : runs) all.insert(all.end(), std::size_t(count), index);
  return all;
}

// skewscout_test.cpp, invariant 6
TEST(SkewScoutSearch, TheObjectiveIsLossBeyondTheToleranceAndCost) {
  const Objective j;
  EXPECT_NEAR(j(0.09, 0.25), 2.25, 1e-12);
  EXPECT_NEAR(j(0.05, 0.40), 0.40, 1e-12);
  EXPECT_NEAR(j(0, 1), 1, 1e-12);
}

// skewscout_test.cpp, invariant 7
TEST(SkewScoutSearch, ClimbsToTheLoosestThatCostsNoAccuracy) {
  EXPECT_EQ(indexes({0, 0, .01, .01, .02, .02, .03}),
            times({{0, 1}, {1, 1}, {2, 1}, {3, 1}, {4, 1}, {5, 1}, {6, 14}}));
  EXPECT_EQ(indexes({0, .01, .02, .04, .08, .15, .25}),
            times({{0, 1}, {1, 1}, {2, 1}, {3, 1}, {4, 1}, {3, 11}, {4, 1}, {3, 3}}));
  const std::vector<double> skewed = {.03, .05, .09, .15, .25, .35, .45};
  EXPECT_EQ(indexes(skewed), times({{0, 1}, {1, 1}, {2, 1}, {1, 11}, {2, 1}, {1, 5}}));
  EXPECT_EQ(indexes(skewed, 6),
            times({{6, 1}, {5, 1}, {4, 1}, {3, 1}, {2, 1}, {1, 11}, {2, 1}, {1, 3}}));
  EXPECT_EQ(indexes({.2, .2, .2, .2, .3, .3, .3}), times({{0, 20}}));
}

TEST(SkewScoutSearch, CountsTravelsThatTheTightestIndexDoesNotHelp) {
  Search search(3, 0, 10, {});
  for (Round m = 0; m < 5; ++m) search.measured(m, 0.2, 1);
  EXPECT_EQ(search.helpless(), 5u);
  search.measured(5, 0.01, 1);
  EXPECT_EQ(search.helpless(), 0u);
  EXPECT_EQ(search.index(), 1u);
  search.measured(6, 0.2, 0.5);
  EXPECT_EQ(search.helpless(), 0u) << "it can be tighter";
}

TEST(SkewScoutSearch, FollowsATableOfItsOwnGridOnly) {
  Search scout(3, 0, 10, {}), other(3, 0, 10, {});
  scout.measured(0, 0, 0.5);
  EXPECT_FALSE(other.follow(3, scout.objectives(), scout.travels()));
  EXPECT_FALSE(other.follow(1, {0.5}, {1}));
  EXPECT_EQ(other.index(), 0u);
  ASSERT_TRUE(other.follow(scout.index(), scout.objectives(), scout.travels()));
  EXPECT_EQ(other.measured(1, 0.2, 0.3), scout.measured(1, 0.2, 0.3));
  EXPECT_EQ(other.index(), 0u);
  EXPECT_EQ(scout.index(), 0u);
}

}  // namespace
}  // namespace longhaul::sync::skewscout
