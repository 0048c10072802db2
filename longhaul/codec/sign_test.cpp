// Invariants (in this file unless another is named):
//   - the error formula, the bytes, sums of `means`
//   - and R-4.2 (feedback_test.cpp); any bytes decode to values or an error:
//     registry_test.cpp, bytes_check_test.cpp and fuzz/codec_fuzz.cpp
#include <cmath>
#include <cstring>

#include <gmock/gmock.h>

#include "longhaul/codec/norms.h"
#include "longhaul/codec/testing/made.h"

namespace longhaul::codec {
namespace {

using made::sent;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Floats = std::vector<float>;

const Setting kMeans{"scale", {std::string("means")}};

TEST(Sign, IsTheMeanMagnitudeWithTheSignOfEach) {
  const auto codec = made::plain("sign");
  EXPECT_THAT(sent(*codec, {3.f, -1.f, 0.f, -0.f}), ElementsAre(1.f, -1.f, 1.f, 1.f));
  EXPECT_THAT(sent(*codec, {0.f, 0.f}), ElementsAre(0.f, 0.f));
}

// The squared error of a block is n2^2 - n1^2/b exactly.
TEST(Sign, LosesWhatTheFormulaSays) {
  const auto codec = made::plain("sign");
  for (const std::size_t length : {1u, 100u, 1024u}) {
    const Floats x = made::normal_values(length, length);
    const double n1 = norm1(x);
    EXPECT_NEAR(made::squared_distance(x, sent(*codec, x)),
                made::squared(x) - n1 * n1 / double(length), 1e-4);
  }
}

TEST(Sign, WritesAScaleAndABitForEachOfABlock) {
  const auto codec =
      made::plain("sign", {{"scale", {std::string("l1")}}, {"block", {std::int64_t{8}}}});
  const Floats x = {1, -1, 1, 1, -1, 1, 1, -1, -5, 5};
  const Buffer bytes = codec->encode({}, {0, x.size()}, x);
  ASSERT_EQ(bytes.size(), 2u + 8u);
  float first = 0, second = 0;
  std::memcpy(&first, &bytes[0], 4);
  std::memcpy(&second, &bytes[5], 4);
  EXPECT_EQ(first, 1.f);
  EXPECT_EQ(second, 5.f);
  EXPECT_EQ(unsigned(bytes[4]), 0x92u);
  EXPECT_EQ(unsigned(bytes[9]), 1u);
}

TEST(Sign, OfMeansTheSumOfWhatIsDecodedIsThatOfTheValues) {
  const auto codec =
      made::plain("sign", {{"scale", {std::string("means")}}, {"block", {std::int64_t{16}}}});
  EXPECT_THAT(sent(*codec, {3.f, -1.f, 0.f, -2.f}), ElementsAre(1.5f, -1.5f, 1.5f, -1.5f));
  EXPECT_THAT(sent(*codec, {3.f, 1.f}), ElementsAre(2.f, 2.f));
  EXPECT_THAT(sent(*codec, {-3.f, -1.f}), ElementsAre(-2.f, -2.f));
  const Floats x = made::normal_values(160, 4);
  const auto sum = [](const Floats& v) { return sum_of(v, [](double one) { return one; }); };
  EXPECT_NEAR(sum(sent(*codec, x)), sum(x), 1e-4);
  EXPECT_EQ(codec->encoded_size(17), 3u + 16u);
}

TEST(Sign, RefusesScalesAndBitsNoEncoderWrites) {
  const auto codec = made::plain("sign");
  const Floats x(9, 1.f);
  Floats out(9);
  const Buffer good = codec->encode({}, {0, 9}, x);
  for (const float scale : {-1.f, std::nanf(""), INFINITY}) {
    Buffer bad = good;
    std::memcpy(bad.data(), &scale, 4);
    const Status status = codec->decode({}, {0, 9}, bad, out);
    ASSERT_FALSE(status) << scale;
    EXPECT_THAT(status.error().what, HasSubstr("scale"));
  }
  Buffer bad = good;
  bad.back() = std::byte{2};
  EXPECT_THAT(codec->decode({}, {0, 9}, bad, out).error().what, HasSubstr("behind its end"));
}

TEST(Sign, HasErrorFeedbackUnlessTheJobSaysOtherwise) {
  EXPECT_TRUE(*wants_error_feedback(made::table_of("sign")));
  EXPECT_FALSE(*wants_error_feedback(made::table_of("sign", made::without_feedback())));
  EXPECT_THAT(made::refusal("sign", {{"block", {std::int64_t{12}}}}), HasSubstr("a multiple of 8"));
  EXPECT_EQ(made::refusal("sign", {kMeans}), "");
}

}  // namespace
}  // namespace longhaul::codec
