#include "longhaul/codec/bytes_check.h"

#include <cfloat>
#include <cmath>
#include <limits>
#include <vector>

#include <gmock/gmock.h>

#include "longhaul/base/rng.h"
#include "longhaul/codec/registry.h"

namespace longhaul::codec {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

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

// Any bytes a peer may send, of any length, to every codec of the registry: finite values, or an
// Error in these words, so that the log says which codec and which stretch of the vector.
TEST(BytesCheck, EveryDecoderOfTheFolderSpeaksSo) {
  Random random(5, {Purpose::test});
  const Range at{5000, 300};
  for (const CodecEntry& entry : registry()) {
    Settings settings{.table = "codec", .file = "job.toml", .line = 1, .entries = {}};
    settings.set({"kind", {std::string(entry.name)}, "job.toml", 2});
    const auto codec = entry.make(settings, Place{}, CodecUse::contribution);
    ASSERT_TRUE(codec) << entry.name;
    const std::size_t right = (*codec)->encoded_size(at.length);
    std::vector<float> out(at.length);
    int sizes = 0, refused = 0;
    for (int draw = 0; draw < 400; ++draw) {
      Buffer bytes(draw % 2 == 0 ? right : random.below(2 * right));
      for (std::byte& byte : bytes) byte = std::byte(random.bits32() & 0xFF);
      const Status status = (*codec)->decode({}, at, bytes, out);
      if (status) {
        EXPECT_TRUE(all_finite(out)) << entry.name;
        continue;
      }
      const std::string& what = status.error().what;
      EXPECT_EQ(status.error().kind, Error::Kind::malformed) << what;
      EXPECT_THAT(what, StartsWith(std::string(entry.name) + ": "));
      sizes += what.find("the 300 values from 5000 on") != std::string::npos;
      ++refused;
    }
    EXPECT_GT(refused, entry.name == "random_k" ? 150 : 200) << entry.name;
    EXPECT_GT(sizes, entry.name == "sparse" ? 0 : 150) << entry.name;
  }
}

TEST(BytesCheck, OfSeveralTheFirstIsNamed) {
  std::vector<float> values(9, 0.f);
  values[3] = -kInfinity;
  values[5] = std::nanf("");
  values[8] = kInfinity;
  EXPECT_THAT(expect_finite("fp32", {0, 9}, values).error().what, HasSubstr("value 3 of"));
}

// Neither may a decoder read behind what came, nor leave a rest unread.
TEST(BytesCheck, OnlyTheExactLengthWillDo) {
  for (const std::size_t expected : {0u, 1u, 24u, 1u << 20}) {
    EXPECT_TRUE(expect_size("fp32", {0, 6}, expected, expected));
    EXPECT_FALSE(expect_size("fp32", {0, 6}, expected + 1, expected)) << expected;
    EXPECT_FALSE(expect_size("fp32", {0, 6}, 2 * expected + 7, expected)) << expected;
    if (expected == 0) continue;
    EXPECT_FALSE(expect_size("fp32", {0, 6}, expected - 1, expected)) << expected;
    EXPECT_FALSE(expect_size("fp32", {0, 6}, 0, expected)) << expected;
  }
}

}  // namespace
}  // namespace longhaul::codec
