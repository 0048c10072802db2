// Invariants (in this file unless another is named):
//   - error at most s/2 for all finite values; zero blocks exact; sizes
//   - any bytes give finite values or an error: here, registry_test.cpp and fuzz/codec_fuzz.cpp
#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include <gmock/gmock.h>
#include <rapidcheck.h>

#include "longhaul/base/testing/result.h"
#include "longhaul/codec/testing/made.h"

#include "longhaul/base/rng.h"

namespace longhaul::codec {
namespace {

using ::testing::HasSubstr;

constexpr std::size_t kBlock = 256;

float scale_at(const Buffer& bytes, std::size_t block) {
  float scale = 0;
  std::memcpy(&scale, &bytes[block * (4 + kBlock)], 4);
  return scale;
}

// Any finite floats, extremes included.
rc::Gen<std::vector<float>> finite_floats() {
  return rc::gen::scale(
      8.0, rc::gen::container<std::vector<float>>(rc::gen::map(
               rc::gen::pair(rc::gen::arbitrary<std::uint32_t>(), rc::gen::inRange(0, 8)),
               [](std::pair<std::uint32_t, int> drawn) {
                 if (drawn.second == 0) return FLT_MAX;
                 if (drawn.second == 1) return 0.f;
                 const float v = std::bit_cast<float>(drawn.first);
                 return std::isfinite(v) ? v : 1.f;
               })));
}

// The error column of int8, with 2^-16 of it for the roundings of x / s and q s.
void expect_half_a_step(const std::vector<float>& values) {
  const auto codec = made::plain("int8");
  const Buffer bytes = codec->encode({}, {0, values.size()}, values);
  const std::vector<float> out = made::sent(*made::plain("int8"), values);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double scale = scale_at(bytes, i / kBlock);
    ASSERT_TRUE(std::isfinite(out[i])) << values[i];
    ASSERT_LE(std::abs(double(out[i]) - double(values[i])), scale / 2 * (1 + 0x1p-15))
        << values[i] << " at " << i;
  }
}

TEST(Int8, ErrorIsAtMostHalfAStep) {
  Random random(2, {Purpose::test});
  for (double size : {1.0, 1e-30, 1e30}) {
    std::vector<float> values(5000);
    for (float& value : values) value = float(size * random.normal());
    expect_half_a_step(values);
  }
}

TEST(Int8, LargestFloatsStayFinite) {
  const std::vector<float> values = {FLT_MAX, -FLT_MAX, FLT_MAX / 2, 1.f, 0.f};
  expect_half_a_step(values);
  EXPECT_TRUE(rc::check("error <= s/2 for any finite floats", [] {
    const auto values = *finite_floats();
    const auto out = made::sent(*made::plain("int8"), values);
    for (std::size_t block = 0; block < values.size(); block += kBlock) {
      const std::size_t end = std::min(values.size(), block + kBlock);
      double most = 0;
      for (std::size_t i = block; i < end; ++i) most = std::max(most, std::abs(double(values[i])));
      const double step = most / 127 + FLT_TRUE_MIN;
      for (std::size_t i = block; i < end; ++i)
        RC_ASSERT(std::abs(double(out[i]) - double(values[i])) <= step / 2 * (1 + 0x1p-15));
    }
  }));
}

// Where a float's last place is a large step of the scale, the scale is rounded up: 127 steps reach
// every value, and nothing is divided by zero.
TEST(Int8, SubnormalScalesReachTheirValues) {
  for (int units : {1, 2, 63, 64, 126, 127, 128, 190, 191, 1000, 123457}) {
    const float max = float(units) * FLT_TRUE_MIN;
    expect_half_a_step({max, -max, 0.f, FLT_TRUE_MIN});
  }
  for (float max : {FLT_MIN, 63 * FLT_MIN, std::nextafterf(127 * FLT_MIN, 0.f), 127 * FLT_MIN})
    expect_half_a_step({max, -max / 3, max / 127, FLT_TRUE_MIN, 0.f});
}

TEST(Int8, ABlockOfZerosIsExactAndAllZeroBytes) {
  const auto codec = made::plain("int8");
  const std::vector<float> values(300, -0.f);
  const Buffer bytes = codec->encode({}, {0, 300}, values);
  EXPECT_EQ(std::count(bytes.begin(), bytes.end(), std::byte{0}), 308);
  EXPECT_THAT(made::sent(*made::plain("int8"), values), ::testing::Each(0.f));
}

TEST(Int8, WritesScaleAndNearestEvenLevelsByBlocksFromTheStretchOn) {
  std::vector<float> values(258, 0.f);
  values[0] = 254.f;  // s = 2
  values[1] = 1.f;    // 0.5: to 0
  values[2] = 3.f;    // 1.5: to 2
  values[3] = -5.f;   // -2.5: to -2
  values[4] = -254.f;
  values[256] = 127.f;  // the next block: s = 1
  values[257] = -3.f;
  const auto codec = made::plain("int8");
  const Buffer bytes = codec->encode({}, {77, values.size()}, values);
  ASSERT_EQ(bytes.size(), 258u + 8u);
  EXPECT_EQ(scale_at(bytes, 0), 2.f);
  EXPECT_EQ(scale_at(bytes, 1), 1.f);
  const auto level = [&](std::size_t at) { return int(std::int8_t(bytes[at])); };
  EXPECT_EQ(level(4), 127);
  EXPECT_EQ(level(5), 0);
  EXPECT_EQ(level(6), 2);
  EXPECT_EQ(level(7), -2);
  EXPECT_EQ(level(8), -127);
  EXPECT_EQ(level(264), 127);
  EXPECT_EQ(level(265), -3);
}

// d + 4 ceil(d/256) bytes.
TEST(Int8, SizeIsOneByteAValueAndFourABlock) {
  const auto codec = made::plain("int8");
  for (std::size_t d : {0u, 1u, 255u, 256u, 257u, 512u, 1000u}) {
    const std::size_t blocks = std::size_t(std::ceil(double(d) / 256));
    EXPECT_EQ(codec->encoded_size(d), d + 4 * blocks) << d;
    EXPECT_EQ(codec->encode({}, {0, d}, std::vector<float>(d, 1.f)).size(), d + 4 * blocks) << d;
  }
}

TEST(Int8, RefusesScalesAndLevelsNoEncoderWrites) {
  const auto codec = made::plain("int8");
  const std::vector<float> values(300, 1.f);
  const Range at{1000, values.size()};
  const Buffer bytes = codec->encode({}, at, values);
  std::vector<float> out(values.size());
  const float infinity = std::numeric_limits<float>::infinity();
  for (float bad : {infinity, -infinity, std::nanf(""), -1.f, -0.f, FLT_MAX, FLT_MAX / 100}) {
    Buffer torn = bytes;
    std::memcpy(&torn[260], &bad, 4);  // the second block's
    const auto status = codec->decode({}, at, torn, out);
    ASSERT_FALSE(status) << bad;
    EXPECT_THAT(status.error().what, HasSubstr("int8: value 1256 of the vector"));
    EXPECT_THAT(status.error().what, HasSubstr("scale"));
  }
  Buffer torn = bytes;
  torn[270] = std::byte{0x80};
  EXPECT_THAT(failure(codec->decode({}, at, torn, out)).what, HasSubstr("-128"));
}

}  // namespace
}  // namespace longhaul::codec
