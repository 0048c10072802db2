#include "longhaul/run/run_log.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

namespace longhaul::run {
namespace {

const Members kMembers = {{.site = "a"}, {.site = "b"}, {.site = "c"}};

TEST(NormWatch, NamesTheNodeThatIsFarFromTheOthers) {
  NormWatch watch(kMembers);
  EXPECT_FALSE(watch.take(0, 0, 1));
  EXPECT_FALSE(watch.take(1, 0, 99));
  EXPECT_FALSE(watch.take(2, 0, 2));
  const auto told = watch.take(1, 1, 1000);
  ASSERT_TRUE(told);
  EXPECT_THAT(*told, ::testing::HasSubstr("b: what it contributes in round 1 is 5e+02 times"));
}

TEST(NormWatch, TellsAgainOnlyWhenItHasBecomeTenTimesAsFar) {
  NormWatch watch(kMembers);
  for (const Rank rank : {0u, 2u}) watch.take(rank, 0, 1);
  EXPECT_TRUE(watch.take(1, 0, 200));
  EXPECT_FALSE(watch.take(1, 1, 1900));
  EXPECT_TRUE(watch.take(1, 2, 2000));
}

TEST(NormWatch, AWholeRunThatGrowsIsNobodysFault) {
  NormWatch watch(kMembers);
  for (Round round = 0; round < 30; ++round)
    for (Rank rank = 0; rank < 3; ++rank)
      EXPECT_FALSE(watch.take(rank, round, double(std::uint64_t(1) << round)));
}

TEST(NormWatch, WhatIsNoNumberIsInNoMedian) {
  NormWatch watch(kMembers);
  watch.take(0, 0, 1);
  EXPECT_FALSE(watch.take(1, 0, std::nan("")));
  EXPECT_FALSE(watch.take(1, 0, std::numeric_limits<double>::infinity()));
  EXPECT_TRUE(watch.take(2, 0, 100));
}

TEST(NormWatch, NoMedianOfZeroAccusesAnybody) {
  NormWatch watch(kMembers);
  watch.take(0, 0, 0);
  EXPECT_FALSE(watch.take(1, 0, 5));
}

}  // namespace
}  // namespace longhaul::run
