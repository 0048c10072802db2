#include "longhaul/sync/sfb/recovery.h"

#include <gtest/gtest.h>

namespace longhaul::sync::sfb {
namespace {

TEST(SfbRecovery, CountsWhatAnySurvivorHas) {
  Recovery recovery;
  recovery.begin({0, 2, 3});
  EXPECT_TRUE(recovery.report(2, {4, 5, 4, 4}));
  EXPECT_EQ(recovery.missing(), (std::vector<Rank>{0, 3}));
  EXPECT_TRUE(recovery.report(0, {5, 3, 4, 4}));
  EXPECT_TRUE(recovery.report(3, {4, 5, 4, 4}));
  EXPECT_TRUE(recovery.missing().empty());
  EXPECT_EQ(recovery.clocks_of(1), 5u);
  EXPECT_EQ(recovery.donor(1), 2u) << "of those who have them all the lowest";
  EXPECT_EQ(recovery.has(0, 1), 3u);
}

TEST(SfbRecovery, HearsEachSurvivorOnce) {
  Recovery recovery;
  recovery.begin({0, 2});
  EXPECT_FALSE(recovery.report(1, {0, 0, 0}));
  EXPECT_TRUE(recovery.report(0, {1, 1, 1}));
  EXPECT_FALSE(recovery.report(0, {9, 9, 9}));
  recovery.begin({0});
  EXPECT_EQ(recovery.missing(), std::vector<Rank>{0});
}

}  // namespace
}  // namespace longhaul::sync::sfb
