#include "longhaul/sync/sfb/recovery.h"

#include <gtest/gtest.h>

namespace longhaul::sync::sfb {
namespace {

ControlHeader report_of(Round clock, std::vector<Round> done, std::vector<HeldClocks> held = {}) {
  return {.clock = clock, .done = std::move(done), .held = std::move(held)};
}

ControlHeader outsider(Round clock) { return {.clock = clock, .is_outside = true}; }

using Spans = std::vector<Span>;

TEST(SfbRecovery, CountsWhatAnySurvivorHas) {
  Recovery recovery;
  recovery.begin({0, 2, 3}, 0);
  EXPECT_TRUE(recovery.report(2, report_of(4, {4, 5, 4, 4}, {{1, 3, 2}})));
  EXPECT_EQ(recovery.missing(), (std::vector<Rank>{0, 3}));
  EXPECT_TRUE(recovery.report(0, report_of(3, {5, 3, 4, 4}, {{1, 2, 1}})));
  EXPECT_TRUE(recovery.report(3, report_of(4, {4, 5, 4, 4}, {{1, 3, 2}})));
  EXPECT_TRUE(recovery.missing().empty());
  EXPECT_EQ(recovery.counted(1), (Spans{{2, 5}}));
  EXPECT_EQ(recovery.donor(1, 2), 0u);
  EXPECT_EQ(recovery.donor(1, 4), 2u) << "of those who have it the lowest";
  EXPECT_EQ(recovery.done(0, 1), 3u);
  EXPECT_TRUE(recovery.lacks(0, 1, 4));
  EXPECT_FALSE(recovery.lacks(0, 1, 2));
  EXPECT_FALSE(recovery.lacks(2, 1, 2)) << "it has had it";
}

TEST(SfbRecovery, HearsEachSurvivorOnce) {
  Recovery recovery;
  recovery.begin({0, 2}, 0);
  EXPECT_FALSE(recovery.report(1, report_of(0, {0, 0, 0})));
  EXPECT_TRUE(recovery.report(0, report_of(1, {1, 1, 1})));
  EXPECT_FALSE(recovery.report(0, report_of(9, {9, 9, 9})));
  recovery.begin({0}, 0);
  EXPECT_EQ(recovery.missing(), std::vector<Rank>{0});
}

// Two lives of one worker: what lies between them counts for nobody, whoever knows of it.
TEST(SfbRecovery, KnowsLivesApart) {
  Recovery recovery;
  recovery.begin({0, 2}, 0);
  recovery.report(0, report_of(9, {9, 10, 9}, {{1, 6, 1}, {1, 9, 1}}));
  recovery.report(2, report_of(8, {9, 6, 9}, {{1, 5, 1}}));
  EXPECT_EQ(recovery.counted(1), (Spans{{5, 7}, {9, 10}}));
  EXPECT_TRUE(recovery.lacks(2, 1, 6));
  EXPECT_EQ(recovery.donor(1, 9), 0u);
}

TEST(SfbRecovery, OneOutsideEntersAfterAllClocksThatAnybodyIsIn) {
  Recovery recovery;
  recovery.begin({0, 1, 2}, 2);
  recovery.report(0, report_of(7, {7, 0, 7}));
  recovery.report(2, report_of(8, {8, 0, 8}));
  recovery.report(1, outsider(0));
  EXPECT_TRUE(recovery.is_outside(1));
  EXPECT_EQ(recovery.entry(1, 2), 10u);
  EXPECT_EQ(recovery.entry(0, 2), 0u) << "it has been here from the beginning";
  EXPECT_EQ(recovery.done(1, 0), 8u) << "what the giver lacks";
  EXPECT_TRUE(recovery.lacks(1, 0, 8));
}

// The giver holds clock 9, and has not applied it, since it lacks clock 7: its state has neither.
TEST(SfbRecovery, OneOutsideLacksWhatTheGiverHasNotDone) {
  Recovery recovery;
  recovery.begin({0, 1, 2}, 0);
  recovery.report(0, report_of(9, {9, 9, 9, 7}, {{3, 5, 2}, {3, 9, 1}}));
  recovery.report(2, report_of(9, {9, 9, 9, 8}, {{3, 6, 2}}));
  recovery.report(1, outsider(0));
  EXPECT_FALSE(recovery.lacks(0, 3, 9));
  EXPECT_TRUE(recovery.lacks(1, 3, 9));
  EXPECT_TRUE(recovery.lacks(1, 3, 7));
  EXPECT_FALSE(recovery.lacks(1, 3, 6));
}

// Its clocks are not those of its life before, nor those that it has sent in this one.
TEST(SfbRecovery, OneOutsideEntersAfterItsOwnClocks) {
  Recovery recovery;
  recovery.begin({0, 1, 2}, 0);
  recovery.report(0, report_of(7, {7, 10, 7}, {{1, 8, 2}}));
  recovery.report(2, outsider(12));
  recovery.report(1, outsider(0));
  EXPECT_EQ(recovery.entry(1, 1), 11u);
  EXPECT_EQ(recovery.entry(2, 1), 13u);
}

// What one has that gives up its model counts no more than what a lost one had.
TEST(SfbRecovery, OneOutsideGivesNothing) {
  Recovery recovery;
  recovery.begin({0, 1}, 0);
  recovery.report(0, report_of(7, {7, 7, 4}, {{2, 3, 1}}));
  ControlHeader other = outsider(5);
  other.held = {{2, 3, 2}};
  recovery.report(1, other);
  EXPECT_EQ(recovery.counted(2), (Spans{{3, 4}}));
  EXPECT_EQ(recovery.donor(2, 3), 0u);
}

}  // namespace
}  // namespace longhaul::sync::sfb
