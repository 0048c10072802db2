#include "longhaul/codec/half.h"

#include <cfloat>
#include <cmath>

#include <gtest/gtest.h>

namespace longhaul::codec {
namespace {

constexpr std::uint16_t kLargest = 0x7BFF;  // 65504

// The definition of IEEE 754-2019, 3.4, in double.
double value_of(unsigned half) {
  const int exponent = int(half >> 10) & 31;
  const int fraction = int(half & 0x3FF);
  const double magnitude =
      exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
  return (half & 0x8000) != 0 ? -magnitude : magnitude;
}

TEST(Half, EveryFiniteHalfHasItsValueAndComesBack) {
  for (unsigned bits = 0; bits < 65536; ++bits) {
    const auto half = std::uint16_t(bits);
    ASSERT_EQ(half_is_finite(half), (bits & 0x7C00u) != 0x7C00u) << bits;
    if (!half_is_finite(half)) continue;
    const float value = from_half(half);
    ASSERT_EQ(double(value), value_of(bits)) << bits;
    ASSERT_EQ(std::signbit(value), bits >= 0x8000) << bits;
    ASSERT_EQ(to_half(value), half) << bits;
    ASSERT_FALSE(over_half(value)) << bits;
  }
}

// Rounding can change its answer only at the midpoints between neighbours: all are tried, with the
// floats right below and above.
TEST(Half, EveryFloatBetweenTwoHalvesGoesToTheNearestAndTiesToTheEven) {
  for (unsigned bits = 0; bits < kLargest; ++bits) {
    const auto low = std::uint16_t(bits), high = std::uint16_t(bits + 1);
    const float middle = float((value_of(low) + value_of(high)) / 2);
    const std::uint16_t even = low % 2 == 0 ? low : high;
    ASSERT_EQ(to_half(middle), even) << bits;
    ASSERT_EQ(to_half(std::nextafterf(middle, 0.f)), low) << bits;
    ASSERT_EQ(to_half(std::nextafterf(middle, FLT_MAX)), high) << bits;
    ASSERT_EQ(to_half(-middle), even | 0x8000) << bits;
    ASSERT_EQ(to_half(-std::nextafterf(middle, 0.f)), low | 0x8000) << bits;
    ASSERT_EQ(to_half(-std::nextafterf(middle, FLT_MAX)), high | 0x8000) << bits;
  }
}

TEST(Half, MagnitudesOver65504AreClampedAndKnown) {
  for (float value :
       {std::nextafterf(65504.f, FLT_MAX), 65519.f, 65520.f, 65536.f, 1e30f, FLT_MAX}) {
    EXPECT_EQ(to_half(value), kLargest) << value;
    EXPECT_EQ(to_half(-value), kLargest | 0x8000) << value;
    EXPECT_TRUE(over_half(value)) << value;
    EXPECT_TRUE(over_half(-value)) << value;
  }
  EXPECT_FALSE(over_half(65504.f));
  EXPECT_FALSE(over_half(-65504.f));
}

TEST(Half, FloatsTooSmallForAHalfBecomeZeroOfTheirSign) {
  for (float value : {0.f, FLT_TRUE_MIN, FLT_MIN, 0x1p-26f, 0x1p-25f}) {
    EXPECT_EQ(to_half(value), 0) << value;
    EXPECT_EQ(to_half(-value), 0x8000) << value;
  }
  EXPECT_EQ(to_half(std::nextafterf(0x1p-25f, 1.f)), 1);
}

}  // namespace
}  // namespace longhaul::codec
