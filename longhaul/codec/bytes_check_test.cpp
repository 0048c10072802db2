#include "longhaul/codec/bytes_check.h"

#include <cfloat>
#include <cmath>
#include <limits>
#include <vector>

#include <gmock/gmock.h>

namespace longhaul::codec {
namespace {

// All that is no number: both infinities, quiet and signalling, of either sign.
std::vector<float> not_numbers() {
  std::vector<float> values;
  for (const std::uint32_t bits : {0x7F800000u, 0xFF800000u, 0x7FC00000u, 0xFFC00000u, 0x7F800001u,
                                   0xFF800001u, 0x7FFFFFFFu, 0xFFFFFFFFu})
    values.push_back(std::bit_cast<float>(bits));
  return values;
}

TEST(BytesCheck, AWrongLengthIsNamedWithTheStretchItIsFor) {
  const Status status = expect_size("int8", {std::uint64_t{1} << 40, 6}, 23, 24);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().kind, Error::Kind::malformed);
  EXPECT_EQ(status.error().what,
            "int8: 23 bytes for the 6 values from 1099511627776 on, expected 24");
}

TEST(BytesCheck, ABadValueIsThePeersFaultAndNamed) {
  const Error error = bad_value("sign", std::uint64_t{1} << 33, "is neither up nor down");
  EXPECT_EQ(error.kind, Error::Kind::malformed);
  EXPECT_EQ(error.what, "sign: value 8589934592 of the vector is neither up nor down");
}

// Wherever it stands, the last place included.
TEST(BytesCheck, OneValueThatIsNotFiniteIsFoundAndNamedByItsPlaceInTheVector) {
  for (const float bad : not_numbers()) {
    for (std::size_t place = 0; place < 9; ++place) {
      std::vector<float> values(9, -1.5f);
      values[place] = bad;
      const Status status = expect_finite("fp32", {1000, 9}, values);
      ASSERT_FALSE(status) << place;
      EXPECT_EQ(status.error().kind, Error::Kind::malformed);
      EXPECT_EQ(status.error().what,
                "fp32: value " + std::to_string(1000 + place) + " of the vector is not finite");
    }
  }
}

// What is only large, tiny or nothing is a number.
TEST(BytesCheck, EveryFiniteFloatPasses) {
  for (const float value : {0.f, -0.f, FLT_TRUE_MIN, -FLT_TRUE_MIN, FLT_MIN, FLT_MAX, -FLT_MAX})
    EXPECT_TRUE(expect_finite("fp32", {7, 2}, std::vector<float>{value, value})) << value;
  EXPECT_TRUE(expect_finite("fp32", {7, 0}, {}));
}

}  // namespace
}  // namespace longhaul::codec
