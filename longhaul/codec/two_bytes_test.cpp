// Invariants (in this file unless another is named):
//   - bf16: every value survives; midpoints and their neighbours round as defined
//   - bf16 and fp16: the table of errors, clamping, its count in a checkpoint
//   - fp16: all 65,536 patterns, midpoints and their neighbours: half_test.cpp
//   - any bytes give finite values or an error: here, registry_test.cpp, bytes_check_test.cpp and
//     fuzz/codec_fuzz.cpp
//   - registry_test.cpp
#include <cfloat>
#include <cmath>
#include <cstring>
#include <vector>

#include <gmock/gmock.h>
#include <rapidcheck.h>

#include "longhaul/base/rng.h"
#include "longhaul/base/testing/result.h"
#include "longhaul/codec/half.h"
#include "longhaul/codec/testing/made.h"

namespace longhaul::codec {
namespace {

using ::testing::HasSubstr;

// The error column of fp16: relative <= 2^-11 from 2^-14 up, and 2^-25 absolute below.
TEST(Fp16, ErrorIsAtMostHalfAUnitOfTheLastPlace) {
  Random random(1, {Purpose::test});
  std::vector<float> values;
  for (int i = 0; i < 20000; ++i) {  // magnitudes from 2^-30 to 65504, evenly over the exponents
    const double exponent = -30 + 46 * random.uniform();
    const double magnitude = std::min(65504.0, std::exp2(exponent));
    values.push_back(float(random.below(2) ? magnitude : -magnitude));
  }
  const auto codec = made::plain("fp16");
  const std::vector<float> out = made::sent(*codec, values);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double x = values[i], error = std::abs(out[i] - x);
    ASSERT_LE(error, std::abs(x) >= 0x1p-14 ? std::abs(x) * 0x1p-11 : 0x1p-25) << x;
  }
  EXPECT_EQ(codec->clamped(), 0u);
}

// Vector instructions work on blocks; every value must come out as the scalar function has it,
// wherever the vector ends.
TEST(Fp16, EveryLengthGivesTheHalvesOfItsValues) {
  EXPECT_TRUE(rc::check("halves of the values", [] {
    const auto values =
        *rc::gen::scale(3.0, rc::gen::container<std::vector<float>>(rc::gen::map(
                                 rc::gen::arbitrary<std::uint32_t>(), [](std::uint32_t bits) {
                                   const float value = std::bit_cast<float>(bits);
                                   return std::isfinite(value) ? value : 1.f;
                                 })));
    const auto codec = made::plain("fp16");
    const Buffer bytes = codec->encode({}, {0, values.size()}, values);
    RC_ASSERT(bytes.size() == 2 * values.size());
    std::uint64_t over = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      std::uint16_t half = 0;
      std::memcpy(&half, &bytes[2 * i], 2);
      RC_ASSERT(half == to_half(values[i]));
      over += over_half(values[i]) ? 1 : 0;
    }
    RC_ASSERT(codec->clamped() == over);
    std::vector<float> out(values.size());
    RC_ASSERT(bool(codec->decode({}, {0, values.size()}, bytes, out)));
    for (std::size_t i = 0; i < values.size(); ++i)
      RC_ASSERT(out[i] == from_half(to_half(values[i])));
  }));
}

TEST(Fp16, ClampsAndCounts) {
  const auto codec = made::plain("fp16");
  std::vector<float> values(100, 1.f);
  values[3] = 65505.f;
  values[70] = -FLT_MAX;
  values[99] = 65504.f;
  const std::vector<float> out = made::sent(*codec, values);
  EXPECT_EQ(out[3], 65504.f);
  EXPECT_EQ(out[70], -65504.f);
  EXPECT_EQ(codec->clamped(), 2u);
}

TEST(Fp16, RefusesNumbersThatAreNone) {
  const auto codec = made::plain("fp16");
  const std::vector<float> values(130, 1.f);
  const Range at{1000, values.size()};
  Buffer bytes = codec->encode({}, at, values);
  std::vector<float> out(values.size());
  for (std::size_t index : {0u, 64u, 129u}) {
    for (unsigned bits : {0x7C00u, 0xFC00u, 0x7E01u, 0xFFFFu}) {
      const auto bad = std::uint16_t(bits);
      Buffer torn = bytes;
      std::memcpy(&torn[2 * index], &bad, 2);
      EXPECT_THAT(failure(codec->decode({}, at, torn, out)).what,
                  HasSubstr("value " + std::to_string(1000 + index) + " of the vector"))
          << index;
    }
  }
}

// --- bf16

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
  EXPECT_EQ(failure(codec->decode({}, {10, 3}, bad, out)).what,
            "bf16: value 11 of the vector is not finite");
}

}  // namespace
}  // namespace longhaul::codec
