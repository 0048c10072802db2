#include "longhaul/core/layout.h"

#include <gtest/gtest.h>

namespace longhaul {
namespace {

constexpr auto kBuffer = LayerRange::Role::buffer;

TEST(Layout, ParametersThenBuffersTileTheVector) {
  const Layout layout(
      {{"conv", {0, 6}, {2, 3}}, {"norm", {6, 2}, {2}}, {"mean", {8, 2}, {2}, kBuffer}});
  EXPECT_EQ(layout.size(), 10u);
  EXPECT_EQ(layout.parameters(), (Range{0, 8}));
  EXPECT_EQ(layout.buffers(), (Range{8, 2}));
}

TEST(LayoutDeathTest, GapsAndMixedOrderAreBugs) {
  EXPECT_DEATH(Layout({{"a", {0, 2}, {2}}, {"b", {3, 2}, {2}}}), "check failed");
  EXPECT_DEATH(Layout({{"a", {0, 2}, {2}, kBuffer}, {"b", {2, 2}, {2}}}), "check failed");
}

}  // namespace
}  // namespace longhaul
