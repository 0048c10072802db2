#include "longhaul/sync/grouping/sketch.h"

#include <gtest/gtest.h>

#include <cmath>

#include "longhaul/base/rng.h"

namespace longhaul::sync::grouping {
namespace {

TEST(Sketch, IsOfTheLastLayersWeightsAndBias) {
  const Layout layout({{"fc1.weight", {0, 6}, {2, 3}},
                       {"fc2.weight", {6, 4}, {2, 2}},
                       {"fc2.bias", {10, 2}, {2}},
                       {"bn.mean", {12, 3}, {3}, LayerRange::Role::buffer}});
  EXPECT_EQ(output_layer(layout), (Range{6, 6}));
  EXPECT_EQ(output_layer(*Layout::flat(5)), (Range{0, 5}));
}

// Lengths and angles survive: signs are fair and those of different rows and columns differ.
TEST(Sketch, KeepsLengthsAndAngles) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    Random random(seed, Stream{});
    std::vector<float> a(300), b(300);
    for (std::size_t k = 0; k < a.size(); ++k) {
      a[k] = float(random.normal());
      b[k] = 0.5f * a[k] + float(random.normal());
    }
    const auto dot = [](const auto& x, const auto& y) {
      double sum = 0;
      for (std::size_t k = 0; k < x.size(); ++k) sum += double(x[k]) * double(y[k]);
      return sum;
    };
    const auto u = sketch_of(a, 256, 7), v = sketch_of(b, 256, 7);
    EXPECT_NEAR(dot(u, u) / dot(a, a), 1, 0.3);
    EXPECT_NEAR(dot(u, v) / std::sqrt(dot(u, u) * dot(v, v)),
                dot(a, b) / std::sqrt(dot(a, a) * dot(b, b)), 0.2);
    EXPECT_EQ(u, sketch_of(a, 256, 7));
    EXPECT_NE(u, sketch_of(a, 256, 8));
  }
}

// Entry i is the sum of g's entries, each with its sign of row i, over the root of their number.
TEST(Sketch, AddsTheEntriesWithTheSignsOfItsRows) {
  std::vector<float> g(50);
  Random random(5, Stream{});
  for (float& value : g) value = float(random.normal());
  for (const std::uint32_t size : {1u, 31u, 32u, 40u, 256u}) {
    std::vector<double> sum(size);
    for (std::size_t column = 0; column < g.size(); ++column) {
      Random signs(9, {Purpose::codec, column, 0xFFFFFFFF});
      std::uint32_t bits = 0;
      for (std::uint32_t row = 0; row < size; ++row) {
        if (row % 32 == 0) bits = signs.bits32();
        sum[row] += (bits >> (row % 32) & 1) != 0 ? double(g[column]) : -double(g[column]);
      }
    }
    std::vector<float> expected;
    for (const double s : sum) expected.push_back(float(s / std::sqrt(double(size))));
    EXPECT_EQ(sketch_of(g, size, 9), expected) << size;
  }
}

TEST(Sketch, OfWhatIsNotFiniteIsZero) {
  const std::vector<float> bad{1, std::nanf(""), 2}, zero(8);
  EXPECT_EQ(sketch_of(bad, 8, 1), zero);
  EXPECT_EQ(sketch_of(std::vector<float>(3), 8, 1), zero);
}

}  // namespace
}  // namespace longhaul::sync::grouping
