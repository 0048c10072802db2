#include "longhaul/sync/gaia/blocked.h"

#include <gtest/gtest.h>

namespace longhaul::sync::gaia {
namespace {

constexpr Slot kSlot = 2;

// gaia_test.cpp, invariant 11
TEST(GaiaBlocked, AStepThatReadsABlockedIndexWaitsForItsUpdate) {
  Blocked blocked;
  blocked.block(kSlot, 5, 0, ranges_of({3, 7}, 0, 10));
  const std::vector<Range> seven = {{7, 1}}, eight = {{8, 1}}, around = {{0, 3}, {4, 3}, {8, 2}};
  EXPECT_EQ(blocked.blocks(seven, 5), kSlot);
  EXPECT_EQ(blocked.blocks(eight, 5), std::nullopt);
  EXPECT_EQ(blocked.blocks(around, 5), std::nullopt);
  EXPECT_EQ(blocked.blocks({}, 5), kSlot) << "a dense step reads everything";
  EXPECT_EQ(blocked.blocks(seven, 4), std::nullopt) << "of a clock that the step does not read";
  blocked.release(kSlot, 5, 0);
  EXPECT_EQ(blocked.blocks(seven, 5), std::nullopt);
}

TEST(GaiaBlocked, AClockReleasesAllOfItsSender) {
  Blocked blocked;
  blocked.block(1, 4, 0, {{0, 1}});
  blocked.block(kSlot, 4, 0, {{1, 1}});
  blocked.block(kSlot, 5, 1, {{9, 1}});
  blocked.block(kSlot, 6, 1, {{9, 1}});
  blocked.release_clock(kSlot, 5);
  EXPECT_EQ(blocked.blocks({}, 5), Slot(1));
  const std::vector<Range> nine = {{9, 1}};
  EXPECT_EQ(blocked.blocks(nine, 5), std::nullopt);
  EXPECT_EQ(blocked.blocks(nine, 6), kSlot);
  blocked.clear();
  EXPECT_EQ(blocked.blocks({}, 9), std::nullopt);
}

TEST(GaiaBlocked, RangesJoinNeighbours) {
  EXPECT_EQ(ranges_of({0, 1, 2, 5, 6, 9}, 100, 10),
            (std::vector<Range>{{100, 3}, {105, 2}, {109, 1}}));
  EXPECT_EQ(ranges_of({}, 100, 10), (std::vector<Range>{{100, 10}}));
}

}  // namespace
}  // namespace longhaul::sync::gaia
