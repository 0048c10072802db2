#include "longhaul/codec/fp32.h"

#include <cfloat>
#include <cstring>
#include <limits>
#include <vector>

#include <gmock/gmock.h>

namespace longhaul::codec {
namespace {

using testing::HasSubstr;

const std::vector<float> kValues = {0.f, -0.f, 1.f, -2.5f, FLT_MAX, FLT_TRUE_MIN};
const Range kAt{100, kValues.size()};

TEST(Fp32, GivesBackTheSameBits) {
  Fp32 codec;
  const Buffer bytes = codec.encode({}, kAt, kValues);
  EXPECT_EQ(bytes.size(), codec.encoded_size(kValues.size()));
  std::vector<float> out(kValues.size(), 7.f);
  ASSERT_TRUE(codec.decode({}, kAt, bytes, out));
  EXPECT_EQ(std::memcmp(out.data(), kValues.data(), bytes.size()), 0);
  EXPECT_TRUE(codec.encode({}, {5, 0}, {}).empty());
  EXPECT_TRUE(codec.decode({}, {5, 0}, {}, {}));
}

TEST(Fp32, RefusesOtherLengthsAndNumbersThatAreNone) {
  Fp32 codec;
  Buffer bytes = codec.encode({}, kAt, kValues);
  std::vector<float> out(kValues.size());
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    const auto status = codec.decode({}, kAt, std::span(bytes).first(size), out);
    ASSERT_FALSE(status) << size;
    EXPECT_THAT(status.error().what, HasSubstr("expected 24"));
  }
  for (float bad : {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                    std::numeric_limits<float>::quiet_NaN()}) {
    std::memcpy(&bytes[8], &bad, 4);
    const auto status = codec.decode({}, kAt, bytes, out);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().kind, Error::Kind::malformed);
    EXPECT_THAT(status.error().what, HasSubstr("fp32: value 102 of the vector is not finite"));
  }
}

TEST(Fp32DeathTest, ChecksThatValuesAreFinite) {
  Fp32 codec;
  const std::vector<float> bad = {1.f, std::numeric_limits<float>::quiet_NaN()};
  EXPECT_DEATH(codec.encode({}, {0, 2}, bad), "all_finite");
}

}  // namespace
}  // namespace longhaul::codec
