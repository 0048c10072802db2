// Invariants (in this file unless another is named):
//   - the bound, the bytes
//   - the selection equals sorting (ties, zeros, threshold): select_test.cpp
//   - lists of any places within their bound; any bytes are a list or an error: indices_test.cpp
//   - and R-4.2 (feedback_test.cpp); any bytes decode to values or an error:
//     registry_test.cpp, bytes_check_test.cpp and fuzz/codec_fuzz.cpp
#include <gmock/gmock.h>

#include "longhaul/codec/testing/made.h"

namespace longhaul::codec {
namespace {

using made::sent;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Floats = std::vector<float>;

TEST(TopK, SendsTheLargestExactly) {
  const auto codec = made::plain("top_k", {{"ratio", {0.4}}});
  EXPECT_THAT(sent(*codec, {0.1f, -3.f, 2.f, 0.5f, -0.2f}), ElementsAre(0.f, -3.f, 2.f, 0.f, 0.f));
}

TEST(TopK, WithAThresholdFewerAreSent) {
  const auto codec = made::plain("top_k", {{"ratio", {1.0}}, {"threshold", {1.0}}});
  EXPECT_THAT(sent(*codec, {0.1f, -3.f, 1.f, 0.5f}), ElementsAre(0.f, -3.f, 1.f, 0.f));
  EXPECT_EQ(codec->encode({}, {0, 4}, Floats(4, 0.1f)).size(), 4u + 1u + 0u);
}

// Squared at most (1 - k/d) n2^2.
TEST(TopK, LosesAtMostTheShareThatIsNotSent) {
  for (const double ratio : {0.01, 0.1, 0.5}) {
    const auto codec = made::plain("top_k", {{"ratio", {ratio}}});
    const Floats x = made::normal_values(1000, 1), same(1000, 1.f);
    EXPECT_LE(made::squared_distance(x, sent(*codec, x)), (1 - ratio) * made::squared(x));
    EXPECT_NEAR(made::squared_distance(same, sent(*codec, same)), (1 - ratio) * 1000, 1e-9);
  }
}

// A hundredth of a chunk: four bytes a value, and little more than one for its place.
TEST(TopK, AHundredthTakesAboutFivePercentOfTheBytes) {
  const auto codec = made::plain("top_k");
  const Floats x = made::normal_values(65536, 2);
  const Buffer bytes = codec->encode({}, {0, x.size()}, x);
  EXPECT_LT(double(bytes.size()), 0.0135 * 4 * 65536);
  EXPECT_GT(double(bytes.size()), 0.0125 * 4 * 65536);
  EXPECT_LE(codec->encoded_size(65536), bytes.size() * 11 / 10);
}

TEST(TopK, RefusesMoreValuesThanTheRatioAllows) {
  const auto generous = made::plain("top_k", {{"ratio", {0.5}}});
  const auto strict = made::plain("top_k", {{"ratio", {0.1}}});
  const Floats x = made::normal_values(100, 3);
  Floats out(100);
  const Status status = strict->decode({}, {0, 100}, generous->encode({}, {0, 100}, x), out);
  ASSERT_FALSE(status);
  EXPECT_THAT(status.error().what, HasSubstr("no count of at most 10"));
  EXPECT_THAT(made::refusal("top_k", {{"ratio", {0.0}}}), HasSubstr("[codec] ratio"));
}

}  // namespace
}  // namespace longhaul::codec
