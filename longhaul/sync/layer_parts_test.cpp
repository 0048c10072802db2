#include "longhaul/sync/layer_parts.h"

#include <gtest/gtest.h>

namespace longhaul::sync {
namespace {

constexpr std::size_t kLayerPartsAtMost = 32;  // parts

// A layer that is not fully connected goes with the one before it; buffers are in no part.
TEST(LayerParts, APartBeginsAtEachFullyConnectedLayer) {
  using Role = LayerRange::Role;
  using Linear = LayerRange::Linear;
  const Layout layout({{"conv.weight", {0, 4}, {4}},
                       {"conv.bias", {4, 1}, {1}},
                       {"fc1.weight", {5, 6}, {2, 3}, Role::parameter, Linear::weight},
                       {"fc1.bias", {11, 2}, {2}, Role::parameter, Linear::bias},
                       {"norm", {13, 2}, {2}},
                       {"fc2.weight", {15, 2}, {1, 2}, Role::parameter, Linear::weight},
                       {"mean", {17, 2}, {2}, Role::buffer}});
  const auto parts = layer_parts(layout, /*phantom=*/false);
  ASSERT_EQ(parts.size(), 3u);
  const LayerPart expected[] = {{0, 2, {0, 5}}, {2, 5, {5, 10}}, {5, 6, {15, 2}}};
  for (std::size_t i = 0; i < parts.size(); ++i) {
    EXPECT_EQ(parts[i].first, expected[i].first) << i;
    EXPECT_EQ(parts[i].end, expected[i].end) << i;
    EXPECT_EQ(parts[i].values, expected[i].values) << i;
  }
  EXPECT_EQ(layer_parts(layout, /*phantom=*/true).size(), 6u);
  EXPECT_EQ(layer_parts(layout, false, 2).size(), 2u);
}

// Neighbours go together where there are more than so many, and nothing is left out.
TEST(LayerParts, NeighboursGoTogetherWhereThereAreTooMany) {
  for (const std::uint64_t count : {1u, 31u, 32u, 33u, 64u, 65u, 100u}) {
    std::vector<LayerRange> layers;
    for (std::uint64_t i = 0; i < count; ++i)
      layers.push_back({"l" + std::to_string(i), {3 * i, 3}, {3}});
    const auto parts = layer_parts(Layout(layers), /*phantom=*/true, kLayerPartsAtMost);
    EXPECT_LE(parts.size(), kLayerPartsAtMost);
    EXPECT_GE(2 * parts.size(), std::min<std::size_t>(count, kLayerPartsAtMost));
    std::uint64_t at = 0;
    std::uint32_t entry = 0;
    for (const LayerPart& part : parts) {
      EXPECT_EQ(part.values.offset, at);
      EXPECT_EQ(part.first, entry);
      at = part.values.end();
      entry = part.end;
    }
    EXPECT_EQ(at, 3 * count);
    EXPECT_EQ(entry, count);
  }
}

}  // namespace
}  // namespace longhaul::sync
