// Invariants (in this file unless another is named):
//   - the largest of each chunk, bins for outliers, the loss, the bytes
//   - the mean of senders on any node: overlay/reduction_test.cpp, overlay/exchange_test.cpp
//   - sent and kept values add up with a decay of 1; any bytes decode to values or an error:
//     registry_test.cpp, fuzz/codec_fuzz.cpp
#include <set>

#include <gmock/gmock.h>

#include "longhaul/codec/testing/made.h"

namespace longhaul::codec {
namespace {

using made::sent;
using Floats = std::vector<float>;

// Of each chunk as many, in at most four values.
TEST(QTopK, SendsTheLargestOfEachChunkInFourLevels) {
  const auto codec = made::plain("q_top_k", {{"ratio", {0.25}}, {"chunk", {std::int64_t{8}}}});
  const Floats x = {1, 9, -8, 2, 3, 1, 1, 1, /* next chunk */ 4, 0.1f, -5, 1, 1, 1, 1, 1};
  // Kept 9 -8 4 -5 with mean 0: the mean of those from 0 up, and that of those below.
  EXPECT_EQ(sent(*codec, x),
            (Floats{0, 6.5f, -6.5f, 0, 0, 0, 0, 0, 6.5f, 0, -6.5f, 0, 0, 0, 0, 0}));
}

TEST(QTopK, WhatLiesFarOutHasLevelsOfItsOwn) {
  const auto codec = made::plain("q_top_k", {{"ratio", {1.0}}, {"chunk", {std::int64_t{4096}}}});
  Floats x(1000, 1.f);
  for (std::size_t i = 0; i < x.size(); i += 2) x[i] = -1.f;
  x[10] = -100.f;
  x[11] = 200.f;
  const Floats q = sent(*codec, x);
  EXPECT_EQ(q[10], -100.f);
  EXPECT_EQ(q[11], 200.f);
  EXPECT_EQ(std::set<float>(q.begin(), q.end()).size(), 4u);
}

// A chunk of 4096 takes 64 places of little more than a byte and 2 bits each, and 21 bytes.
TEST(QTopK, TakesLittleMoreThanTwoPercentOfAByteEach) {
  const auto codec = made::plain("q_top_k");
  const Floats x = made::normal_values(65536, 1);
  const Buffer bytes = codec->encode({}, {0, x.size()}, x);
  EXPECT_LT(double(bytes.size()), 0.0225 * 65536);
  EXPECT_LE(double(codec->encoded_size(65536)), 0.028 * 65536);
  EXPECT_EQ(codec->encode({}, {0, 9}, Floats(9, 0.f)).size(), 4u + 1u);  // nothing but zeros
}

// Bins lose no more than leaving the values out would.
TEST(QTopK, LosesLessThanItIsGiven) {
  for (const double ratio : {1.0 / 64, 0.5, 1.0}) {
    const auto codec = made::plain("q_top_k", {{"ratio", {ratio}}, {"chunk", {std::int64_t{100}}}});
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      Floats x = made::normal_values(450, seed);
      for (float& v : x) v = v * v * v;
      EXPECT_LT(made::squared_distance(x, sent(*codec, x)), made::squared(x));
    }
  }
}

// A value a little beyond the others gets a level of its own, so four levels are used.
TEST(QTopK, BinsAreOneAndAHalfStandardDeviationsWide) {
  const auto codec = made::plain("q_top_k", {{"ratio", {1.0}}, {"chunk", {std::int64_t{4096}}}});
  Floats x = made::normal_values(4000, 3);
  const Floats q = sent(*codec, x);
  EXPECT_EQ(std::set<float>(q.begin(), q.end()).size(), 4u);
  // The best four levels of a normal distribution lose 0.1175 of its variance (Max 1960), two 0.36.
  EXPECT_LT(made::squared_distance(x, q), 0.2 * made::squared(x));
}

// What wraps it passes the wish on.
TEST(QTopK, AsksForTheMeanOfSendersIfTold) {
  EXPECT_FALSE(made::contributing("q_top_k")->mean_of_senders());
  const Setting of_senders{"mean_of_senders", {true}};
  EXPECT_TRUE(made::contributing("q_top_k", {of_senders})->mean_of_senders());
  EXPECT_TRUE(
      made::contributing("q_top_k", {of_senders, {"feedback_momentum", {0.5}}})->mean_of_senders());
}

}  // namespace
}  // namespace longhaul::codec
