// Invariants (in this file unless another is named):
//   - variance, levels, bytes, random numbers by place; the draws: draws_test.cpp
//   - unbiased within five standard deviations over 3,000 rounds: registry_test.cpp
//   - any bytes decode to values or an error: registry_test.cpp, bytes_check_test.cpp and
//     fuzz/codec_fuzz.cpp
#include <cmath>
#include <cstring>

#include <gmock/gmock.h>

#include "longhaul/codec/testing/made.h"

namespace longhaul::codec {
namespace {

using made::plain;
using made::sent;
using ::testing::HasSubstr;
using Floats = std::vector<float>;

Setting bits_key(int bits) { return {"bits", {std::int64_t(bits)}}; }

// Decoded values are the two levels beside x, of s = 2^(bits-1) - 1.
TEST(Qsgd, RoundsToALevelBesideTheValue) {
  for (const int bits : {2, 4, 8}) {
    const auto codec = plain("qsgd", {bits_key(bits)});
    const double s = std::exp2(bits - 1) - 1;
    for (Round round = 0; round < 20; ++round) {
      const Floats x = made::normal_values(512, round);
      const double norm = std::sqrt(made::squared(x));
      const Floats q = sent(*codec, x, {{.round = round}});
      for (std::size_t i = 0; i < x.size(); ++i) {
        ASSERT_LE(std::abs(double(q[i]) - double(x[i])), norm / s * (1 + 1e-5));
        const double level = double(q[i]) / norm * s;
        ASSERT_NEAR(level, std::round(level), 1e-4);
      }
    }
  }
}

// E |x - q|^2 <= min(D/s^2, sqrt(D)/s) n2^2, which is 3.23 n2^2 for the defaults.
TEST(Qsgd, VarianceIsBounded) {
  const auto codec = plain("qsgd");
  const Floats x = made::normal_values(512, 1);
  double sum = 0;
  for (Round round = 0; round < 200; ++round)
    sum += made::squared_distance(x, sent(*codec, x, {{.round = round}}));
  const double bound = std::min(512.0 / 49, std::sqrt(512.0) / 7);
  EXPECT_NEAR(bound, 3.23, 0.01);
  EXPECT_LE(sum / 200, bound * made::squared(x));
  EXPECT_GE(sum / 200, 0.1 * made::squared(x));  // it is noise
}

TEST(Qsgd, PacksLevelsBehindTheNorm) {
  const auto codec = plain("qsgd");
  // A norm of 5: levels 7 * 3/5 and 7 * 4/5 lie between 4 and 5, 5 and 6.
  const Buffer bytes = codec->encode({}, {0, 3}, Floats{3.f, -4.f, 0.f});
  ASSERT_EQ(bytes.size(), 4u + 2u);
  float norm = 0;
  std::memcpy(&norm, bytes.data(), 4);
  EXPECT_EQ(norm, 5.f);
  EXPECT_THAT(unsigned(bytes[4]) & 15u, ::testing::AnyOf(4u, 5u));
  EXPECT_THAT(unsigned(bytes[4]) >> 4, ::testing::AnyOf(16u - 5, 16u - 6));
  EXPECT_EQ(unsigned(bytes[5]), 0u);
  for (const std::size_t d : {1u, 511u, 512u, 513u, 2000u}) {
    EXPECT_EQ(codec->encoded_size(d), (d + 1) / 2 + 4 * ((d + 511) / 512));
    EXPECT_EQ(codec->encode({}, {0, d}, Floats(d, 1.f)).size(), codec->encoded_size(d));
  }
}

// Another cut of the vector draws the same numbers for the same elements.
TEST(Qsgd, DrawsByThePlaceInTheVector) {
  const auto codec = plain("qsgd");
  const Floats x = made::normal_values(1024, 5);
  const Floats whole = sent(*codec, x), back = sent(*codec, {x.begin() + 512, x.end()}, {}, 512);
  EXPECT_TRUE(std::equal(back.begin(), back.end(), whole.begin() + 512));
}

TEST(Qsgd, RefusesNormsAndLevelsNoEncoderWrites) {
  const auto codec = plain("qsgd");
  Floats out(2);
  Buffer bytes = codec->encode({}, {0, 2}, Floats{1.f, 1.f});
  bytes[4] = std::byte{0x08};  // level -8
  EXPECT_THAT(codec->decode({}, {0, 2}, bytes, out).error().what, HasSubstr("beyond its norm"));
  const float infinite = INFINITY;
  std::memcpy(bytes.data(), &infinite, 4);
  EXPECT_THAT(codec->decode({}, {0, 2}, bytes, out).error().what, HasSubstr("norm is not"));
}

TEST(Qsgd, RefusesOtherBitsAndErrorFeedback) {
  EXPECT_THAT(made::refusal("qsgd", {bits_key(3)}), HasSubstr("[codec] bits: expected 2, 4 or 8"));
  EXPECT_THAT(made::refusal("qsgd", {{"bucket", {std::int64_t{12}}}}),
              HasSubstr("a multiple of 8"));
  EXPECT_THAT(made::refusal("qsgd", {{"error_feedback", {true}}}), HasSubstr("no contraction"));
}

}  // namespace
}  // namespace longhaul::codec
