#include "longhaul/run/target_time.h"

#include <gtest/gtest.h>

namespace longhaul::run {
namespace {

TEST(TargetTime, LiesOnALineBetweenTwoScores) {
  const Scored before{10, 0.88};
  const TargetTime time = target_time(&before, {14, 0.92}, 0.9);
  EXPECT_NEAR(time.at, 12, 1e-9);
  EXPECT_EQ(time.after, 10);
  EXPECT_EQ(time.by, 14);
}

TEST(TargetTime, WithoutAScoreBeforeItIsThatOfTheFirst) {
  const TargetTime time = target_time(nullptr, {14, 0.95}, 0.9);
  EXPECT_EQ(time.at, 14);
  EXPECT_EQ(time.after, 0);
}

TEST(TargetTime, StaysBetweenThemWhateverTheyAre) {
  const Scored before{10, -0.3};
  EXPECT_EQ(target_time(&before, {14, -0.3}, -0.3).at, 14);
  EXPECT_NEAR(target_time(&before, {14, -0.1}, -0.25).at, 11, 1e-9);
}

}  // namespace
}  // namespace longhaul::run
