// What dgc adds to a list of the largest values: the warm-up. Momentum and masking are
// feedback_test.cpp's.
//
// Invariants (in this file unless another is named):
//   - warm-up
//   - sent and waiting values add up to u; repeats, abandoned rounds, checkpoints:
//     feedback_test.cpp
//   - without momentum holds; any bytes decode to values or an error:
//     registry_test.cpp, fuzz/codec_fuzz.cpp
#include <algorithm>

#include <gtest/gtest.h>

#include "longhaul/codec/testing/made.h"

namespace longhaul::codec {
namespace {

using Floats = std::vector<float>;

// ratio^(1/5), ratio^(2/5) ... then the ratio itself.
TEST(Dgc, SendsMoreWhileItWarmsUp) {
  const auto codec = made::plain("dgc", {{"ratio", {0.001}}, {"warm_up", {std::int64_t{4}}}});
  const Floats x = made::normal_values(10000, 1);
  const std::size_t expected[] = {2512, 631, 159, 40, 10, 10};
  for (Round round = 0; round < 6; ++round) {
    const Floats q = made::sent(*codec, x, {{.round = round}});
    EXPECT_EQ(x.size() - std::size_t(std::count(q.begin(), q.end(), 0.f)), expected[round]);
  }
}

TEST(Dgc, TheLargestAreSentAsTheyAre) {
  const auto codec = made::plain("dgc", {{"ratio", {0.25}}});
  const Floats values = {1, -8, 0.5f, 3, 0, -2, 7, 0.1f};
  EXPECT_EQ(made::sent(*codec, values), (Floats{0, -8, 0, 0, 0, 0, 7, 0}));
}

TEST(Dgc, ItsFirstRoundIsTheLongest) {
  const auto codec = made::plain("dgc", {{"ratio", {0.001}}, {"warm_up", {std::int64_t{2}}}});
  const Floats values = made::normal_values(5000, 2);
  for (Round round = 0; round < 4; ++round)
    EXPECT_LE(codec->encode({{.round = round}}, {0, values.size()}, values).size(),
              codec->encoded_size(values.size()));
}

// A peer that goes on sending as in the warm-up sends more than it may.
TEST(Dgc, AListLongerThanItsRoundAllowsIsRefused) {
  const auto codec = made::plain("dgc", {{"ratio", {0.001}}, {"warm_up", {std::int64_t{3}}}});
  const Floats values = made::normal_values(1000, 3);
  const Range at{0, values.size()};
  const Buffer early = codec->encode({{.round = 0}}, at, values);
  Floats out(values.size());
  EXPECT_TRUE(codec->decode({{.round = 0}}, at, early, out));
  const Status late = codec->decode({{.round = 3}}, at, early, out);
  ASSERT_FALSE(late);
  EXPECT_NE(late.error().what.find("dgc: no count of at most 1"), std::string::npos)
      << late.error().what;
}

}  // namespace
}  // namespace longhaul::codec
