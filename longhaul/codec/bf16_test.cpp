#include <cfloat>
#include <cmath>
#include <limits>

#include <gmock/gmock.h>

#include "longhaul/codec/testing/made.h"

namespace longhaul::codec {
namespace {

float of_bits(std::uint32_t bits) { return std::bit_cast<float>(bits); }
float through(float value) {
  const auto codec = made::plain("bf16");
  return made::sent(*codec, {value})[0];
}

// All finite ones come back; between neighbours the nearest is taken, in the middle the even one.
TEST(Bf16, RoundsToTheNearestOfAllItsValues) {
  for (std::uint32_t upper = 0; upper < 0x7F80; upper += upper % 5 == 0 ? 1 : 3) {
    const std::uint32_t bits = upper << 16;
    for (const std::uint32_t sign : {0u, 0x80000000u}) {
      ASSERT_EQ(through(of_bits(bits | sign)), of_bits(bits | sign));
      if (upper == 0x7F7F) continue;
      const float next = of_bits((bits + 0x10000) | sign);
      ASSERT_EQ(through(of_bits((bits + 0x7FFF) | sign)), of_bits(bits | sign));
      ASSERT_EQ(through(of_bits((bits + 0x8001) | sign)), next);
      ASSERT_EQ(through(of_bits((bits + 0x8000) | sign)),
                upper % 2 == 0 ? of_bits(bits | sign) : next);
    }
  }
}

TEST(Bf16, RelativeErrorIsAtMostTwoToTheMinusEight) {
  for (const double size : {1e-30, 1.0, 1e30}) {
    const auto x = made::normal_values(1000, 2, size);
    const auto codec = made::plain("bf16");
    const auto q = made::sent(*codec, x);
    for (std::size_t i = 0; i < x.size(); ++i)
      EXPECT_LE(std::abs(double(q[i]) - double(x[i])), std::abs(double(x[i])) * 0x1p-8);
  }
}

TEST(Bf16, WhatWouldBeInfiniteIsClampedAndCounted) {
  const auto codec = made::plain("bf16");
  const float largest = of_bits(0x7F7F0000), below = of_bits(0x7F7F7FFF);
  EXPECT_EQ(made::sent(*codec, {below})[0], largest);
  EXPECT_EQ(codec->clamped(), 0u);
  EXPECT_THAT(made::sent(*codec, {FLT_MAX, -FLT_MAX, of_bits(0x7F7F8000)}),
              ::testing::ElementsAre(largest, -largest, largest));
  EXPECT_EQ(codec->clamped(), 3u);
}

TEST(Bf16, IsTheUpperHalfLittleEndian) {
  const auto codec = made::plain("bf16");
  const Buffer bytes = codec->encode({}, {0, 1}, std::vector<float>{-1.5f});  // BFC00000
  EXPECT_THAT(bytes, ::testing::ElementsAre(std::byte{0xC0}, std::byte{0xBF}));
  std::vector<float> out(3);
  const Buffer bad = {std::byte{0},    std::byte{0}, std::byte{0x80},
                      std::byte{0x7F}, std::byte{0}, std::byte{0}};
  const Status status = codec->decode({}, {10, 3}, bad, out);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().what, "bf16: value 11 of the vector is not finite");
}

}  // namespace
}  // namespace longhaul::codec
