#include "longhaul/sync/sfb/parts.h"

#include <gtest/gtest.h>

#include "longhaul/base/testing/result.h"

namespace longhaul::sync::sfb {
namespace {

constexpr auto kWeight = LayerRange::Linear::weight;
constexpr auto kBias = LayerRange::Linear::bias;

// A convolution of 10 numbers, layers of 4 x 5 and 3 x 4 with biases; two running statistics.
Layout three_layers() {
  using Role = LayerRange::Role;
  return Layout({{"conv", {0, 10}, {10}},
                 {"fc1.weight", {10, 20}, {4, 5}, Role::parameter, kWeight},
                 {"fc1.bias", {30, 4}, {4}, Role::parameter, kBias},
                 {"fc2.weight", {34, 12}, {3, 4}, Role::parameter, kWeight},
                 {"fc2.bias", {46, 3}, {3}, Role::parameter, kBias},
                 {"mean", {49, 2}, {2}, Role::buffer}});
}

Parts parts_of(const Layout& layout, const char* rule) {
  return Parts(layout, 1, 2, 4, 4, Config{.rule = rule});
}

TEST(SfbParts, StagesAreCutAtFullyConnectedLayersFromTheOutputDown) {
  const Layout layout = three_layers();
  const Parts parts = parts_of(layout, "always");
  const auto stages = good(parts.stages(layout, false, {}));
  ASSERT_EQ(stages->size(), 3u);
  const BackwardStage &top = (*stages)[0], &middle = (*stages)[1], &low = (*stages)[2];
  EXPECT_EQ(std::pair(top.first, top.end), std::pair(3u, 5u));
  EXPECT_EQ(std::pair(middle.first, middle.end), std::pair(1u, 3u));
  EXPECT_EQ(std::pair(low.first, low.end), std::pair(0u, 1u));
  EXPECT_EQ(top.layers, std::vector<std::uint32_t>{1});
  EXPECT_EQ(middle.layers, std::vector<std::uint32_t>{0});
  EXPECT_EQ(top.rest_length + middle.rest_length, 0u);
  EXPECT_EQ(low.rest_length, 10u);
  // A third is the forward pass, which the first stage begins with; the rest by parameters.
  EXPECT_NEAR(top.share, 1.0 / 3 + 2.0 / 3 * 15 / 49, 1e-12);
  EXPECT_NEAR(top.share + middle.share + low.share, 1, 1e-12);
}

TEST(SfbParts, SharesOfTheJobAreFromTheInputOn) {
  const Layout layout = three_layers();
  const Parts parts = parts_of(layout, "never");
  const auto stages = good(parts.stages(layout, false, {0.1, 0.2, 0.3}));
  EXPECT_NEAR((*stages)[0].share, 0.3 + 0.4, 1e-12);
  EXPECT_NEAR((*stages)[1].share, 0.2, 1e-12);
  EXPECT_NEAR((*stages)[2].share, 0.1, 1e-12);
  EXPECT_TRUE(says(parts.stages(layout, false, {0.5}).error().what, "expected 3 shares"));
  EXPECT_FALSE(parts.stages(layout, false, {0.5, 0.5, 0.1}));
  EXPECT_FALSE(parts.stages(layout, false, {-0.1, 0.5, 0.1}));
  EXPECT_EQ(parts.stages(layout, true, {})->size(), 5u);  // a phantom's: each layer by itself
}

// Whatever goes as factors: each parameter is in one layer or in the rest of one stage, and what
// is gathered of a gradient comes back to where it was.
TEST(SfbParts, StagesHaveEachParameterOnce) {
  const Layout layout = three_layers();
  for (const char* rule : {"always", "never"}) {
    const Parts parts = parts_of(layout, rule);
    const auto stages = good(parts.stages(layout, false, {}));
    std::vector<float> whole(49), back(49, -1);
    for (std::size_t i = 0; i < whole.size(); ++i) whole[i] = float(i);
    std::uint64_t length = 0;
    for (const BackwardStage& stage : *stages) {
      const auto rest = Parts::gather_ranges(stage.rest, whole);
      EXPECT_EQ(rest.size(), stage.rest_length);
      Parts::scatter_ranges(stage.rest, rest, back);
      length += stage.rest_length;
      for (const std::uint32_t k : stage.layers) {
        const FactorLayer& layer = parts.layers()[k];
        for (const Range& range : {layer.weight, layer.bias.value_or(Range{})})
          std::copy_n(whole.begin() + std::ptrdiff_t(range.offset), range.length,
                      back.begin() + std::ptrdiff_t(range.offset));
        length += layer.weight.length + (layer.bias ? layer.bias->length : 0);
      }
    }
    EXPECT_EQ(length, 49u);
    EXPECT_EQ(back, whole);
  }
}

}  // namespace
}  // namespace longhaul::sync::sfb
