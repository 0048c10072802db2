#include "longhaul/run/progress.h"

#include <gmock/gmock.h>

namespace longhaul::run {
namespace {

ProgressState progress_at(Round rounds, double waited_s = 0) {
  return {.rounds = rounds,
          .max_rounds = 200,
          .virtual_time = rounds > 0 ? Time{1} : Time{0},
          .loss = {},
          .accuracy = {},
          .is_virtual = false,
          .waits_for = waited_s > 0 ? "berlin, oslo (2 of 4)" : "",
          .waited_s = waited_s};
}

TEST(Progress, AWaitNamesWhoIsMissing) {
  ProgressLines lines("small");
  EXPECT_EQ(lines.line(progress_at(0, 12), 12), "small  waiting for berlin, oslo (2 of 4), 12.0 s");
  EXPECT_THAT(lines.line(progress_at(3, 12), 20),
              ::testing::HasSubstr("round 3/200  waiting for berlin, oslo (2 of 4), 12.0 s  "));
  EXPECT_THAT(lines.line(progress_at(3, 0.1), 21), ::testing::Not(::testing::HasSubstr("waiting")))
      << "part of any round";
}

TEST(Progress, TimeLeftCountsTheRoundsOfThisSession) {
  ProgressLines lines("small");
  EXPECT_EQ(lines.line(progress_at(0), 0), "small");
  EXPECT_THAT(lines.line(progress_at(100), 30), ::testing::Not(::testing::HasSubstr("left")))
      << "resumed: they took no time here";
  EXPECT_THAT(lines.line(progress_at(110), 50),
              ::testing::EndsWith("  real time left <= 3 min 00 s"))
      << "90 rounds of 2 s";
}

// When lines come that say how the run goes, without scores.
std::vector<double> lines_at(ProgressLines& lines, double until_s, auto state) {
  std::vector<double> said;
  for (double now_s = 0; now_s < until_s; now_s += 0.5)
    if (lines.plain(state(now_s), false, now_s)) said.push_back(now_s);
  return said;
}

TEST(Progress, PlainLinesWithoutScoresBecomeRarer) {
  ProgressLines lines("small");
  const auto said =
      lines_at(lines, 600, [](double now_s) { return progress_at(Round(1 + now_s)); });
  EXPECT_THAT(std::vector(said.begin(), said.begin() + 5),
              ::testing::ElementsAre(10, 20, 30, 40, 53.5));
  EXPECT_EQ(said[said.size() - 1] - said[said.size() - 2], 60);
  EXPECT_TRUE(lines.plain(progress_at(700), true, 600.5)) << "a score is told at once";
  EXPECT_FALSE(lines.plain(progress_at(701), true, 601)) << "but not two in a second";
}

TEST(Progress, PlainLinesOfAWait) {
  ProgressLines lines("small");
  EXPECT_THAT(lines_at(lines, 70, [](double now_s) { return progress_at(0, now_s); }),
              ::testing::ElementsAre(5, 35, 65));
  EXPECT_FALSE(lines.plain(progress_at(1), false, 70)) << "it has ended";
  EXPECT_TRUE(lines.plain(progress_at(2, 5), false, 76)) << "the next one";
}

}  // namespace
}  // namespace longhaul::run
