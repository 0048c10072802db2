#include "longhaul/sync/gaia/cut.h"

#include <gtest/gtest.h>

namespace longhaul::sync::gaia {
namespace {

TEST(GaiaCut, TheNewestBaseIsTheDonorOfSeveralTheLowest) {
  Cut cut;
  cut.begin(3, {1, 2, 4, 5});
  EXPECT_TRUE(cut.report(5, 8));
  EXPECT_TRUE(cut.report(4, 8));
  EXPECT_TRUE(cut.report(1, 7));
  EXPECT_EQ(cut.missing(), (std::vector<Rank>{2}));
  EXPECT_TRUE(cut.report(2, 0, Cut::Standing::outside));
  EXPECT_FALSE(cut.report(2, 9)) << "once";
  EXPECT_TRUE(cut.missing().empty());
  EXPECT_EQ(cut.donor(), 4u);
  EXPECT_EQ(cut.clock(), 8u);
}

TEST(GaiaCut, ABaseGoesToThoseWhoHaveAnother) {
  Cut cut;
  cut.begin(1, {0, 1, 2});
  cut.report(0, 5);
  cut.report(1, 5);
  cut.report(2, 4);
  EXPECT_FALSE(cut.needs_base(0, false));
  EXPECT_FALSE(cut.needs_base(1, true));
  EXPECT_TRUE(cut.needs_base(1, false)) << "sums of hubs are rounded elsewhere";
  EXPECT_TRUE(cut.needs_base(2, true));
}

// Its base comes behind its own report, and may come before those of others.
TEST(GaiaCut, WhoHasReportedLessIsNoDonorWhoeverElseReports) {
  Cut cut;
  cut.begin(1, {0, 1, 2});
  EXPECT_FALSE(cut.donor_of_reported());
  cut.report(1, 5);
  EXPECT_EQ(cut.donor_of_reported(), 1u);
  cut.report(2, 6);
  EXPECT_EQ(cut.donor_of_reported(), 2u);
  cut.report(0, 6);
  EXPECT_EQ(cut.donor_of_reported(), 0u);
}

TEST(GaiaCut, OneThatHasComeBackGetsTheBase) {
  Cut cut;
  cut.begin(1, {0, 1, 2});
  cut.report(0, 0, Cut::Standing::outside);
  EXPECT_FALSE(cut.donor_of_reported());
  cut.report(1, 0);
  cut.report(2, 0);
  EXPECT_EQ(cut.donor(), 1u);
  EXPECT_TRUE(cut.needs_base(0, true)) << "though it has reported the same clock";
  EXPECT_FALSE(cut.needs_base(2, true));
}

// Where some have ended already, their model is what the others will end with.
TEST(GaiaCut, OfEqualClocksOneThatHasEnded) {
  Cut cut;
  cut.begin(1, {0, 1, 2});
  cut.report(0, 9, Cut::Standing::flushed);
  cut.report(1, 9, Cut::Standing::ended);
  cut.report(2, 0, Cut::Standing::outside);
  EXPECT_EQ(cut.donor(), 1u);
  EXPECT_EQ(cut.standing(), Cut::Standing::ended);
}

TEST(GaiaCut, ANewViewForgetsTheReportsBefore) {
  Cut cut;
  cut.begin(1, {0, 1});
  cut.report(0, 5);
  cut.begin(2, {0, 1});
  EXPECT_EQ(cut.epoch(), 2u);
  EXPECT_EQ(cut.missing(), (std::vector<Rank>{0, 1}));
  cut.report(0, 0, Cut::Standing::outside);
  cut.report(1, 0, Cut::Standing::outside);
  EXPECT_FALSE(cut.donor());
}

}  // namespace
}  // namespace longhaul::sync::gaia
