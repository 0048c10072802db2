#include <cfloat>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include <gmock/gmock.h>
#include <rapidcheck.h>

#include "longhaul/codec/testing/made.h"

#include "longhaul/base/rng.h"
#include "longhaul/codec/half.h"

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
      const auto status = codec->decode({}, at, torn, out);
      ASSERT_FALSE(status) << index;
      EXPECT_THAT(status.error().what,
                  HasSubstr("value " + std::to_string(1000 + index) + " of the vector"));
    }
  }
}

}  // namespace
}  // namespace longhaul::codec
