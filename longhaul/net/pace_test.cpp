#include "longhaul/net/pace.h"

#include <gtest/gtest.h>

namespace longhaul::net {
namespace {

using namespace std::chrono_literals;

Time twenty(std::uint64_t, Time, const Work& work) {
  return std::holds_alternative<ApplyGradient>(work) ? Time{0} : Time{20ms};
}

TEST(Pace, WhatIsDoneEarlyIsToldLate) {
  Pace pace(twenty);
  pace.begin(100ms, LocalStep{}, false);
  EXPECT_EQ(pace.done(105ms), 20ms);
  EXPECT_EQ(pace.due(), 120ms);
  pace.begin(150ms, LocalStep{}, false);  // it had waited for the network
  EXPECT_EQ(pace.done(170ms), 20ms);
  EXPECT_EQ(pace.due(), 170ms);
  EXPECT_EQ(pace.figures().steps, 2u);
  EXPECT_EQ(pace.figures().overruns, 0u);
}

TEST(Pace, LatenessIsCountedAndDoesNotAddUp) {
  Pace pace(twenty);
  pace.begin(0ms, LocalStep{}, false);
  EXPECT_EQ(pace.done(25ms), 25ms);
  EXPECT_EQ(pace.due(), 25ms);
  EXPECT_EQ(pace.figures().overruns, 1u);
  pace.begin(26ms, LocalStep{}, true);
  EXPECT_EQ(pace.done(30ms), 15ms);  // until 40 ms: two steps of 20
  EXPECT_EQ(pace.due(), 40ms);
  pace.begin(41ms, LocalStep{}, true);
  EXPECT_EQ(pace.done(45ms), 20ms);
  EXPECT_EQ(pace.due(), 60ms);
  pace.begin(200ms, LocalStep{}, false);  // a new chain
  EXPECT_EQ(pace.done(201ms), 20ms);
  EXPECT_EQ(pace.due(), 220ms);
  EXPECT_EQ(pace.figures().steps, 4u);
  EXPECT_EQ(pace.figures().overruns, 1u);
}

// As in the simulator a step is as long as the moment says in which it begins; that of a step at
// once is the ideal end of the one before.
TEST(Pace, AStepIsAsLongAsTheMomentSaysInWhichItBegins) {
  Pace pace([](std::uint64_t, Time at, const Work&) { return at < 40ms ? Time{20ms} : 80ms; });
  pace.begin(0ms, LocalStep{}, false);
  EXPECT_EQ(pace.done(45ms), 45ms);  // late: it should have ended at 20 ms
  pace.begin(46ms, LocalStep{}, true);
  (void)pace.done(47ms);
  EXPECT_EQ(pace.due(), 47ms);  // 20 ms behind that
  pace.begin(48ms, LocalStep{}, true);
  (void)pace.done(49ms);
  EXPECT_EQ(pace.due(), 120ms);
}

// What takes no time in the simulator is no step and no overrun here: the next one makes up for it.
TEST(Pace, WhatShouldTakeNoTimeIsMadeUpFor) {
  Pace pace(twenty);
  pace.begin(10ms, ApplyGradient{}, false);
  EXPECT_EQ(pace.done(12ms), 2ms);
  EXPECT_EQ(pace.due(), 12ms);
  pace.begin(12ms, Gradient{}, true);
  EXPECT_EQ(pace.done(15ms), 18ms);
  EXPECT_EQ(pace.due(), 30ms);
  EXPECT_EQ(pace.figures().steps, 1u);
  EXPECT_EQ(pace.figures().overruns, 0u);
}

// Steps are numbered as in the simulator, so that jitter is the same, and go on being numbered.
TEST(Pace, StepsAreNumberedAlsoAfterACheckpoint) {
  const auto longer = [](std::uint64_t step, Time, const Work&) { return Time{step * 10ms}; };
  Pace pace(longer);
  for (int i = 0; i < 3; ++i) {
    pace.begin(1s, LocalStep{}, false);
    (void)pace.done(1s);
  }
  EXPECT_EQ(pace.due(), 1s + 20ms);
  Archive saved;
  pace.state(saved);
  const Buffer bytes = saved.take();
  Pace again(longer);
  Archive loaded(bytes);
  again.state(loaded);
  ASSERT_TRUE(loaded.finish());
  EXPECT_EQ(again.due(), 1s + 20ms);
  EXPECT_EQ(again.figures().steps, 2u);
  again.begin(1s + 21ms, LocalStep{}, true);
  (void)again.done(1s + 21ms);
  EXPECT_EQ(again.due(), 1s + 50ms);
}

TEST(Pace, WithoutOneStepsTakeWhatTheyTake) {
  Pace pace;
  pace.begin(10ms, LocalStep{}, true);
  EXPECT_EQ(pace.done(13ms), 3ms);
  EXPECT_EQ(pace.due(), 13ms);
  EXPECT_EQ(pace.figures().steps, 0u);
}

}  // namespace
}  // namespace longhaul::net
