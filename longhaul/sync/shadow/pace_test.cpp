#include "longhaul/sync/shadow/lanes.h"

#include <gtest/gtest.h>

namespace longhaul::sync::shadow {
namespace {

TEST(Pace, CountsStepsSinceTheRoundAndSinceTheSnapshot) {
  Pace pace(0, 0);
  const StepResult step{.loss = 2, .samples = 5, .exhausted = true};
  pace.stepped(step);
  pace.stepped({.loss = 4, .samples = 5});
  const Computed first = pace.snapshot();
  EXPECT_EQ(first.steps, 2u);
  EXPECT_EQ(first.samples, 10u);
  EXPECT_EQ(first.loss, 3);
  EXPECT_EQ(pace.steps(), 0u);
  EXPECT_EQ(pace.snapshot().loss, 3);  // nothing new
  pace.stepped(step);
  EXPECT_EQ(pace.completed(), 3u);
  EXPECT_EQ(pace.gap(), 0u);
  EXPECT_EQ(pace.steps(), 1u);
  EXPECT_TRUE(pace.may_step());  // no limit, and passes do not end it
}

// shadowsync_test.cpp, invariant 13
TEST(Pace, TheGapIsBounded) {
  Pace pace(3, 0);
  for (int step = 0; step < 3; ++step) {
    EXPECT_TRUE(pace.may_step());
    pace.stepped({});
  }
  EXPECT_FALSE(pace.may_step());
  EXPECT_FALSE(pace.is_done());
  pace.completed();
  EXPECT_TRUE(pace.may_step());
}

TEST(Pace, IsDoneAfterItsPassesOverTheData) {
  Pace pace(0, 2);
  pace.stepped({.exhausted = true});
  EXPECT_TRUE(pace.may_step());
  pace.stepped({});
  EXPECT_FALSE(pace.is_done());
  pace.stepped({.exhausted = true});
  EXPECT_TRUE(pace.is_done());
  pace.completed();
  EXPECT_FALSE(pace.may_step());
  pace.begin_anew();
  EXPECT_TRUE(pace.may_step());
  EXPECT_EQ(pace.steps(), 0u);
}

}  // namespace
}  // namespace longhaul::sync::shadow
