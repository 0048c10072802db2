#include "longhaul/report/seed_ranges.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

namespace longhaul::report {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr double kBroken = std::numeric_limits<double>::quiet_NaN();
using Values = std::vector<double>;
using Differences = std::vector<Difference>;

// Both ways round.
Difference between(const Values& a, const Values& b) {
  EXPECT_EQ(difference_of(a, b), difference_of(b, a));
  return difference_of(a, b);
}

TEST(SeedRanges, RangesThatOverlapOrTouchTie) {
  EXPECT_EQ(between({10, 12, 15}, {14, 20, 30}), Difference::tie);
  EXPECT_EQ(between({15, 10, 12}, {30, 15, 20}), Difference::tie) << "touching";
  EXPECT_EQ(between({10, 40}, {20, 30}), Difference::tie) << "one within the other";
  EXPECT_EQ(between({5, 5}, {5, 5}), Difference::tie);
  EXPECT_EQ(between({10, 12, 15}, {15.001, 20, 30}), Difference::clear);
  EXPECT_EQ(between({-0.99, -0.98}, {-0.97, -0.96}), Difference::clear) << "accuracies";
}

TEST(SeedRanges, OneSeedCannotTell) {
  EXPECT_EQ(between({10}, {1000}), Difference::one_seed);
  EXPECT_EQ(between({10}, {10}), Difference::one_seed);
  EXPECT_EQ(between({10}, {100, 110, 120}), Difference::one_seed);
  EXPECT_EQ(between({10}, {kNever}), Difference::one_seed);
  EXPECT_EQ(between({10}, {kBroken}), Difference::one_seed);
  EXPECT_EQ(between({}, {1, 2}), Difference::one_seed);
}

TEST(SeedRanges, TheRangeOfASeedThatDoesNotGetThereHasNoEnd) {
  EXPECT_EQ(between({50, 60, 70}, {10, kNever, kNever}), Difference::tie);
  EXPECT_EQ(between({50, 60, kNever}, {70, 80, 90}), Difference::tie);
  EXPECT_EQ(between({50, 60, 70}, {80, kNever, kNever}), Difference::clear);
  EXPECT_EQ(between({50, 60, 70}, {kNever, kNever}), Difference::clear);
  EXPECT_EQ(between({50, 60, kNever}, {kNever, kNever}), Difference::clear);
  EXPECT_EQ(between({kNever, kNever}, {kNever, kNever}), Difference::clear);
}

TEST(SeedRanges, WhatDivergedTiesWithNone) {
  EXPECT_EQ(between({10, 20}, {15, kBroken}), Difference::clear);
  EXPECT_EQ(between({kBroken, kBroken}, {kBroken, kBroken}), Difference::clear);
}

TEST(SeedRanges, TheFirstWinsOnlyIfItIsClearOfAll) {
  using enum Difference;
  EXPECT_EQ(differences_from_first({}), Differences{});
  EXPECT_EQ(differences_from_first({{7}}), Differences{clear}) << "nothing beside it";
  EXPECT_EQ(differences_from_first({{1, 2}, {3, 4}, {5, 6}}), (Differences{clear, clear, clear}));
  EXPECT_EQ(differences_from_first({{1, 5}, {2, 6}, {3, 7}}), (Differences{tie, tie, tie}));
  // Ties are with the first, not from one to the next.
  EXPECT_EQ(differences_from_first({{1, 3}, {2, 6}, {5, 7}}), (Differences{tie, tie, clear}));
  EXPECT_EQ(differences_from_first({{1, 5}, {6, 7}, {4, 20}}), (Differences{tie, clear, tie}));
  EXPECT_EQ(differences_from_first({{1}, {9}}), (Differences{one_seed, one_seed}));
  EXPECT_EQ(differences_from_first({{1, 5}, {9}, {4, 6}}), (Differences{tie, one_seed, tie}));
  EXPECT_EQ(differences_from_first({{1, 5}, {8, 9}, {7}}),
            (Differences{one_seed, clear, one_seed}));
}

TEST(SeedRanges, MedianAndRange) {
  EXPECT_TRUE(std::isnan(median({})));
  EXPECT_EQ(median({3, 1, 2}), 2);
  EXPECT_EQ(median({4, 1, 2, 3}), 2.5);
  EXPECT_FALSE(spread_of({}));
  const Spread spread = *spread_of({3, 1, kNever});
  EXPECT_EQ(spread.median, 3);
  EXPECT_EQ(spread.min, 1);
  EXPECT_EQ(spread.max, kNever);
}

TEST(SeedRanges, NamesInWords) {
  EXPECT_EQ(names_text({}), "");
  EXPECT_EQ(names_text({"a"}), "a");
  EXPECT_EQ(names_text({"a", "b"}), "a and b");
  EXPECT_EQ(names_text({"a", "b", "c"}), "a, b and c");
  EXPECT_EQ(names_text({"a", "b", "c", "d"}), "a, b, c and d");
  EXPECT_EQ(names_text({"a", "b", "c", "d", "e"}), "a, b, c and 2 others");
}

}  // namespace
}  // namespace longhaul::report
