// Invariants (in this file unless another is named):
//   - the variance, the bytes
//   - unbiased within five standard deviations: registry_test.cpp
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

TEST(Ternary, IsZeroOrTheLargestWithTheSign) {
  const auto codec = plain("ternary");
  const Floats x = {2.f, -1.f, 0.f, 0.5f, -2.f, 0.001f, 1.f};
  for (Round round = 0; round < 100; ++round) {
    const Floats q = sent(*codec, x, {{.round = round}});
    EXPECT_EQ(q[0], 2.f);  // with probability 1
    EXPECT_EQ(q[4], -2.f);
    EXPECT_EQ(q[2], 0.f);
    for (std::size_t i = 0; i < x.size(); ++i)
      EXPECT_TRUE(q[i] == 0 || q[i] == std::copysign(2.f, x[i])) << i;
  }
}

// E |x - q|^2 = sum |x| (m - |x|)
TEST(Ternary, VarianceIsThatOfTheFormula) {
  const auto codec = plain("ternary");
  const Floats x = made::normal_values(500, 1);
  double most = 0, expected = 0, found = 0;
  for (const float v : x) most = std::max(most, std::abs(double(v)));
  for (const float v : x) expected += std::abs(double(v)) * (most - std::abs(double(v)));
  constexpr int kRounds = 400;
  for (Round round = 0; round < kRounds; ++round)
    found += made::squared_distance(x, sent(*codec, x, {{.round = round}})) / kRounds;
  EXPECT_NEAR(found, expected, 0.03 * expected);
}

TEST(Ternary, FiveTritsMakeAByteBehindTheScale) {
  const auto codec = plain("ternary");
  const Buffer bytes = codec->encode({}, {0, 6}, Floats{3.f, 0.f, -3.f, 3.f, 0.f, -3.f});
  ASSERT_EQ(bytes.size(), 4u + 2u);
  // Digits 2 1 0 2 1, and 0 with four trits of 0 behind it.
  EXPECT_EQ(unsigned(bytes[4]), 2u + 3 * 1 + 9 * 0 + 27 * 2 + 81 * 1);
  EXPECT_EQ(unsigned(bytes[5]), 0u + 3 + 9 + 27 + 81);
  for (const std::size_t d : {1u, 5u, 6u, 999u, 1000u, 1001u}) {
    EXPECT_EQ(codec->encoded_size(d), (d + 4) / 5 + 4 * ((d + 999) / 1000));
    EXPECT_EQ(codec->encode({}, {0, d}, Floats(d, 1.f)).size(), codec->encoded_size(d));
  }
}

TEST(Ternary, RefusesBytesThatAreNoTritsAndScalesThatAreNone) {
  const auto codec = plain("ternary");
  Floats out(6);
  const Buffer good = codec->encode({}, {0, 6}, Floats(6, 1.f));
  for (const unsigned bad_byte : {243u, 255u}) {
    Buffer bad = good;
    bad[4] = std::byte(bad_byte);
    EXPECT_THAT(codec->decode({}, {0, 6}, bad, out).error().what, HasSubstr("no trits"));
  }
  Buffer bad = good;
  bad[5] = std::byte{0};  // trits behind the last value that are not 0
  EXPECT_FALSE(codec->decode({}, {0, 6}, bad, out));
  bad = good;
  const float scale = -1;
  std::memcpy(bad.data(), &scale, 4);
  EXPECT_THAT(codec->decode({}, {0, 6}, bad, out).error().what, HasSubstr("scale"));
  EXPECT_THAT(made::refusal("ternary", {{"block", {std::int64_t{12}}}}),
              HasSubstr("a multiple of 5"));
}

}  // namespace
}  // namespace longhaul::codec
