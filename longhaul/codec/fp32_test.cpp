// Invariants (in this file unless another is named):
//   - bit-identical values, with negative zero and subnormal numbers
//   - any bytes give finite values or an error: here, registry_test.cpp and fuzz/codec_fuzz.cpp
#include <cfloat>
#include <cstring>
#include <limits>
#include <vector>

#include <gmock/gmock.h>

#include "longhaul/codec/testing/made.h"

namespace longhaul::codec {
namespace {

using ::testing::HasSubstr;

const std::vector<float> kValues = {0.f, -0.f, 1.f, -2.5f, FLT_MAX, FLT_TRUE_MIN};
const Range kAt{100, kValues.size()};

TEST(Fp32, GivesBackTheSameBits) {
  const auto codec = made::plain("fp32");
  const Buffer bytes = codec->encode({}, kAt, kValues);
  EXPECT_EQ(bytes.size(), codec->encoded_size(kValues.size()));
  std::vector<float> out(kValues.size(), 7.f);
  ASSERT_TRUE(codec->decode({}, kAt, bytes, out));
  EXPECT_EQ(std::memcmp(out.data(), kValues.data(), bytes.size()), 0);
  EXPECT_TRUE(codec->encode({}, {5, 0}, {}).empty());
  EXPECT_TRUE(codec->decode({}, {5, 0}, {}, {}));
}

TEST(Fp32, RefusesNumbersThatAreNone) {
  const auto codec = made::plain("fp32");
  Buffer bytes = codec->encode({}, kAt, kValues);
  std::vector<float> out(kValues.size());
  for (float bad : {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                    std::numeric_limits<float>::quiet_NaN()}) {
    std::memcpy(&bytes[8], &bad, 4);
    const auto status = codec->decode({}, kAt, bytes, out);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().kind, Error::Kind::malformed);
    EXPECT_THAT(status.error().what, HasSubstr("fp32: value 102 of the vector is not finite"));
  }
}

}  // namespace
}  // namespace longhaul::codec
