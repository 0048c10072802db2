// Invariants (in this file unless another is named):
//   - exact sums, both error formulas, scaling
//   - all sets of places are equally likely: select_test.cpp
//   - unbiased within five standard deviations over many rounds: registry_test.cpp
//   - and R-4.2 (feedback_test.cpp); any bytes decode to values or an error:
//     registry_test.cpp, bytes_check_test.cpp and fuzz/codec_fuzz.cpp
#include <gmock/gmock.h>

#include "longhaul/codec/testing/made.h"

namespace longhaul::codec {
namespace {

using made::plain;
using made::sent;
using made::without_feedback;
using Floats = std::vector<float>;

const Setting kTenth{"ratio", {0.1}};
const Setting kFed{"error_feedback", {true}};

std::size_t places_sent(const Floats& q) {
  return q.size() - std::size_t(std::count(q.begin(), q.end(), 0.f));
}

TEST(RandomK, SendsSoManyValuesAndNoPlaces) {
  const auto codec = plain("random_k", {kTenth, kFed});
  const Floats x(1000, 3.f), q = sent(*codec, x);
  EXPECT_EQ(places_sent(q), 100u);
  EXPECT_EQ(codec->encode({}, {0, 1000}, x).size(), 400u);
  for (const float value : q) EXPECT_TRUE(value == 0 || value == 3);
}

TEST(RandomK, WithoutFeedbackContributionsAreScaled) {
  const auto codec = plain("random_k", without_feedback({kTenth}));
  const Floats q = sent(*codec, Floats(1000, 3.f));
  EXPECT_EQ(places_sent(q), 100u);
  for (const float value : q) EXPECT_TRUE(value == 0 || value == 30);
}

// All nodes send the same places, so sums of what they sent are written without loss, by any node.
TEST(RandomK, SumsOnTheWayAreExact) {
  const auto codec = plain("random_k", without_feedback({kTenth}));
  const auto sums = plain("random_k", without_feedback({kTenth}), 1, CodecUse::sum);
  const Floats a = sent(*codec, made::normal_values(500, 1), {{.round = 8}, 0});
  const Floats b = sent(*codec, made::normal_values(500, 2), {{.round = 8}, 1});
  Floats sum(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) sum[i] = a[i] + b[i];
  EXPECT_EQ(places_sent(sum), 50u);
  EXPECT_EQ(sent(*sums, sum, {{.round = 8}, 2}), sum);
}

// Squared error (1 - k/d) n2^2 in the mean with feedback, (d/k - 1) n2^2 without.
TEST(RandomK, LosesWhatTheFormulasSay) {
  const Floats x = made::normal_values(300, 3);
  constexpr int kRounds = 600;
  double fed = 0, scaled = 0;
  const auto with = plain("random_k", {kTenth, kFed}),
             without = plain("random_k", without_feedback({kTenth}));
  for (Round round = 0; round < kRounds; ++round) {
    fed += made::squared_distance(x, sent(*with, x, {{.round = round}})) / kRounds;
    scaled += made::squared_distance(x, sent(*without, x, {{.round = round}})) / kRounds;
  }
  EXPECT_NEAR(fed, 0.9 * made::squared(x), 0.02 * made::squared(x));
  EXPECT_NEAR(scaled, 9 * made::squared(x), 0.5 * made::squared(x));
}

}  // namespace
}  // namespace longhaul::codec
