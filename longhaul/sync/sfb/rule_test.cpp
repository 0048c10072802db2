#include "longhaul/sync/sfb/rule.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace longhaul::sync::sfb {
namespace {

// sfb_test.cpp, invariant 5: the most rows for a layer of 4096 x 4096, and the numbers of the three
// ways.
TEST(SfbRule, HasTheThresholdsOfASquareLayer) {
  const double rows[] = {2048, 1024, 512, 256, 128};
  for (int i = 0; i < 5; ++i) EXPECT_EQ(most_rows({4096, 4096, 1, std::uint64_t(2) << i}), rows[i]);
  const LayerShape square{4096, 4096, 32, 8};
  EXPECT_EQ(2 * factor_numbers(square), 2.0 * 32 * 7 * 8192);  // sent and received
  EXPECT_NEAR(2 * factor_numbers(square) * 1e-6, 3.67, 0.005);
  EXPECT_NEAR(server_numbers(square, 8, 8) * 1e-6, 58.72, 0.005);
  EXPECT_EQ(server_numbers(square, 8, 8), 2 * matrix_numbers(square));
}

// sfb_test.cpp, invariant 4: 4 K (J + D) (P - 1) bytes a worker and clock, J = 1000, D = 2000, P =
// 8, beside the matrix by reduce-scatter and all-gather.
TEST(SfbRule, CountsTheBytesOfFactorsExactly) {
  const std::pair<std::uint64_t, double> bytes[] = {
      {1, 84e3}, {8, 672e3}, {32, 2688e3}, {128, 10752e3}, {512, 43008e3}};
  for (const auto& [rows, expected] : bytes)
    EXPECT_EQ(4 * factor_numbers({1000, 2000, rows, 8}), expected);
  EXPECT_EQ(4 * matrix_numbers({1000, 2000, 1, 8}), 14e6);
}

RC_GTEST_PROP(SfbRule, PicksFactorsExactlyUpToTheMostRows, ()) {
  const LayerShape shape{
      *rc::gen::inRange<std::uint64_t>(1, 5000), *rc::gen::inRange<std::uint64_t>(1, 5000),
      *rc::gen::inRange<std::uint64_t>(1, 600), *rc::gen::inRange<std::uint64_t>(2, 40)};
  // K (P - 1) (M + N) <= 2 M N (P - 1) / P in whole numbers.
  const bool fewer =
      shape.rows * shape.parties * (shape.out + shape.in) <= 2 * shape.out * shape.in;
  const double rows = double(shape.rows), most = most_rows(shape);
  if (rows != most) RC_ASSERT(goes_as_factors(shape, 4, 4, {}) == fewer);
  if (rows < most * (1 - 1e-9)) RC_ASSERT(goes_as_factors(shape, 4, 4, {}));
  if (rows > most * (1 + 1e-9)) RC_ASSERT(!goes_as_factors(shape, 4, 4, {}));
  RC_ASSERT(goes_as_factors(shape, 4, 4, {.rule = "always"}));
  RC_ASSERT(!goes_as_factors(shape, 4, 4, {.rule = "never"}));
}

// Factors of half the bytes may have twice the rows.
TEST(SfbRule, CountsTheBytesOfEachNumber) {
  const LayerShape shape{1000, 1000, 200, 8};
  EXPECT_FALSE(goes_as_factors(shape, 4, 4, {}));
  EXPECT_TRUE(goes_as_factors(shape, 2, 4, {}));
}

// One delay instead of two lets factors be slower by bytes; slow multiplication does the contrary.
TEST(SfbRule, OfTimeSeesDelaysAndMultiplication) {
  Config config{.rule = "time", .rule_mbps = 100, .rule_delay_ms = 40, .rule_gflops = 1e6};
  const LayerShape shape{1000, 2000, 170, 8};
  EXPECT_NEAR(most_rows(shape), 166.7, 0.05);
  EXPECT_TRUE(goes_as_factors(shape, 4, 4, config));
  EXPECT_NEAR(matrix_time(shape, 4, config), 1.2, 1e-9);
  EXPECT_FALSE(goes_as_factors({1000, 2000, 174, 8}, 4, 4, config));
  config.rule_gflops = 1;
  EXPECT_FALSE(goes_as_factors(shape, 4, 4, config));
}

// Partial spread sends to fewer: the more rows pay.
TEST(SfbRule, CountsWhomAPartialSpreadSendsTo) {
  Config config{.spread = "partial", .partial_peers = 2};
  const LayerShape shape = shape_of(4096, 4096, 32, 8, config);
  EXPECT_DOUBLE_EQ(factor_numbers(shape), 32.0 * 2 * 8192);
  EXPECT_DOUBLE_EQ(most_rows(shape), 512 * 7.0 / 2);
  EXPECT_TRUE(goes_as_factors(shape_of(4096, 4096, 1792, 8, config), 4, 4, config));
  EXPECT_FALSE(goes_as_factors(shape_of(4096, 4096, 1793, 8, config), 4, 4, config));
  config.spread = "full";
  EXPECT_DOUBLE_EQ(most_rows(shape_of(4096, 4096, 32, 8, config)), 512.0);
}

}  // namespace
}  // namespace longhaul::sync::sfb
