// What every codec of the registry promises by its traits: a codec added there is tested here.
#include <algorithm>
#include <cfloat>
#include <cmath>

#include <gmock/gmock.h>
#include <rapidcheck.h>

#include "longhaul/base/rng.h"
#include "longhaul/base/testing/archived.h"
#include "longhaul/codec/feedback.h"
#include "longhaul/codec/testing/made.h"

namespace longhaul::codec {
namespace {

using made::normal_values;
using made::plain;
using made::sent;
using made::squared;
using made::squared_distance;
using made::without_feedback;
using Fate = Codec::Fate;
using Floats = std::vector<float>;

struct CodecProperty : ::testing::TestWithParam<CodecEntry> {
  const CodecEntry& entry() const { return GetParam(); }
  // Plain, as contributions are written, with its defaults or its small settings.
  std::unique_ptr<Codec> make(bool small = false, std::uint64_t seed = 1) const {
    return plain(entry().name, without_feedback(small ? entry().small : std::vector<Setting>{}),
                 seed);
  }
};

INSTANTIATE_TEST_SUITE_P(Registry, CodecProperty,
                         ::testing::ValuesIn(registry().begin(), registry().end()),
                         [](const auto& info) { return std::string(info.param.name); });

// Lengths around the blocks of codecs.
constexpr std::size_t kLengths[] = {1, 2, 7, 8, 9, 255, 257, 511, 513, 999, 1001, 1025, 4097};

TEST_P(CodecProperty, BytesAreBoundedAndReadBack) {
  for (const bool small : {false, true})
    for (const std::size_t length : kLengths) {
      const auto codec = make(small);
      const Floats x = normal_values(length, length);
      const Floats q = sent(*codec, x, {{.round = 3}, 1}, 77);  // CHECKs the bound
      EXPECT_TRUE(all_finite(q)) << length;
      if (entry().traits.lossless) {
        EXPECT_EQ(q, x);
      }
      if (!entry().traits.close) continue;
      const float most = std::abs(*std::max_element(
          x.begin(), x.end(), [](float a, float b) { return std::abs(a) < std::abs(b); }));
      for (std::size_t i = 0; i < length; ++i) EXPECT_NEAR(q[i], x[i], most / 100);
    }
}

TEST_P(CodecProperty, BoundsGrowWithTheLength) {
  for (const bool small : {false, true}) {
    const auto codec = make(small);
    for (std::size_t length = 1; length < 3000; ++length)
      ASSERT_LE(codec->encoded_size(length - 1), codec->encoded_size(length)) << length;
  }
}

// The same key, stretch and values: the same bytes, of any object, after any other vector.
TEST_P(CodecProperty, BytesAreAFunctionOfKeyStretchAndValues) {
  const auto one = make(), other = make();
  const Floats x = normal_values(3000, 5);
  const CodecKey key{{9, 2, 1}, 4};
  const Buffer bytes = one->encode(key, {50, x.size()}, x);
  one->encode({{10, 2, 1}, 4}, {0, 10}, normal_values(10, 6));
  EXPECT_EQ(one->encode(key, {50, x.size()}, x), bytes);
  EXPECT_EQ(other->encode(key, {50, x.size()}, x), bytes);
}

TEST_P(CodecProperty, ExtremesStayFinite) {
  for (const bool small : {false, true}) {
    const auto codec = make(small);
    for (const Floats& x :
         {Floats(300, 0.f), Floats(300, -0.f), Floats(300, FLT_MAX), Floats(300, -FLT_MAX),
          Floats(300, FLT_TRUE_MIN), Floats{FLT_MAX, -FLT_MAX, FLT_TRUE_MIN, 0.f, 1.f, FLT_MIN}})
      EXPECT_TRUE(all_finite(sent(*codec, x)));
  }
}

// Means of sums have an exact form of their own where the algebra forbids the codec's.
TEST_P(CodecProperty, WhatWritesSumsAddsAsTheAlgebraSays) {
  auto made = make_codec(made::table_of(entry().name, entry().small), Place{}, false);
  ASSERT_TRUE(made);
  const Floats z = sent(*made::contributing(entry().name, entry().small), normal_values(900, 8));
  const Floats q = sent(**made, z, {{}, 3});
  if (entry().traits.algebra != Algebra::reencode) {
    EXPECT_EQ(q, z);
  }
}

// E q = x: the mean over many rounds is within five standard deviations of it.
TEST_P(CodecProperty, UnbiasedOnesAreSoInTheMean) {
  const bool scaled = entry().name == "random_k";  // without error feedback
  if (!entry().traits.unbiased || entry().traits.lossless) return;
  constexpr int kRounds = 3000;
  const auto codec = make(/*small=*/true);
  const Floats x = {1.f, -0.6f, 0.31f, 0.02f, 0.f, -0.007f, 0.5f, 0.25f, -1.f, 0.999f};
  std::vector<double> sums(x.size()), squares(x.size());
  bool varies = false;
  for (Round round = 0; round < kRounds; ++round) {
    const Floats q = sent(*codec, x, {{.round = round}});
    for (std::size_t i = 0; i < x.size(); ++i) {
      sums[i] += double(q[i]);
      squares[i] += double(q[i]) * double(q[i]);
      varies |= q[i] != x[i];
    }
  }
  EXPECT_TRUE(varies);
  EXPECT_TRUE(scaled || !entry().traits.contraction);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double mean = sums[i] / kRounds;
    const double deviation = std::sqrt(std::max(0.0, squares[i] / kRounds - mean * mean) / kRounds);
    EXPECT_NEAR(mean, double(x[i]), 5 * deviation + 1e-6) << i;
  }
}

// Every contraction loses less than it is given; of the others the registry refuses feedback.
TEST_P(CodecProperty, R4_2_ContractionsLoseLessThanTheyAreGiven) {
  if (!entry().traits.contraction || entry().traits.lossless) return;
  const auto codec = plain(entry().name, {{"error_feedback", {true}}});
  for (std::uint64_t draw = 0; draw < 10; ++draw) {
    const Floats x = normal_values(2000, draw, std::exp2(double(draw) - 5));
    EXPECT_LT(squared_distance(x, sent(*codec, x, {{.round = draw}})), squared(x));
  }
}

// R-4.1 (R-4.4 of dgc) for every codec that may have error feedback: what was delivered and what is
// kept add up to what was given, whatever was abandoned.
TEST_P(CodecProperty, R4_1_DeliveredAndResidualAddUpToWhatWasGiven) {
  if (refuses_feedback(entry())) return;
  constexpr std::size_t kSize = 700;
  for (const bool small : {false, true}) {
    std::vector<Setting> keys = small ? entry().small : std::vector<Setting>{};
    std::erase_if(keys, [](const Setting& key) { return key.key == "feedback_momentum"; });
    keys.push_back({"error_feedback", {true}});
    keys.push_back({"feedback_momentum", {0.0}});
    const auto codec = made::contributing(entry().name, keys);
    auto* feedback = dynamic_cast<ErrorFeedback*>(codec.get());
    ASSERT_NE(feedback, nullptr);
    Random random(31, {Purpose::test});
    std::vector<double> given(kSize), got(kSize);
    for (Round round = 0; round < 30; ++round) {
      const CodecKey key{{.round = round}};
      const Floats z = normal_values(kSize, 100 + round);
      const Floats front = sent(*codec, {z.begin(), z.begin() + 300}, key);
      const Floats back = sent(*codec, {z.begin() + 300, z.end()}, key, 300);
      const bool delivered = random.below(4) != 0;
      codec->settle(key, delivered ? Fate::delivered : Fate::abandoned);
      for (std::size_t i = 0; i < kSize; ++i) {
        given[i] += double(z[i]);
        if (delivered) got[i] += double(i < 300 ? front[i] : back[i - 300]);
      }
    }
    const auto r = feedback->carried(0, 0);
    for (std::size_t i = 0; i < kSize; ++i) ASSERT_NEAR(got[i] + double(r[i]), given[i], 1e-4) << i;
  }
}

// Bytes that are nearly its own: finite values or an error in the codec's name.
TEST_P(CodecProperty, DamagedBytesAreValuesOrAnError) {
  Random random(17, {Purpose::test});
  const auto codec = make(/*small=*/true);
  const Floats x = normal_values(777, 9);
  const CodecKey key{{.round = 2}};
  const Buffer good = codec->encode(key, {5, x.size()}, x);
  Floats out(x.size());
  for (int draw = 0; draw < 300; ++draw) {
    Buffer bytes = good;
    for (std::uint64_t hits = 1 + random.below(4); hits > 0; --hits)
      bytes[random.below(draw % 2 == 0 ? bytes.size() : std::min<std::size_t>(16, bytes.size()))] =
          std::byte(random.below(256));
    if (draw % 5 == 0) bytes.resize(random.below(2 * bytes.size()));
    const Status status = codec->decode(key, {5, x.size()}, bytes, out);
    if (status)
      EXPECT_TRUE(all_finite(out));
    else
      EXPECT_THAT(status.error().what, ::testing::StartsWith(std::string(entry().name) + ": "));
  }
}

// Neither may a decoder read behind what came, nor leave a rest unread.
TEST_P(CodecProperty, BytesOfAnotherLengthAreRefused) {
  for (const std::size_t length : {1u, 6u, 130u, 300u}) {
    const auto codec = make();
    Buffer bytes = codec->encode({}, {0, length}, normal_values(length, 10));
    Floats out(length);
    for (std::size_t size = 0; size < bytes.size(); ++size)
      ASSERT_FALSE(codec->decode({}, {0, length}, std::span(bytes).first(size), out)) << size;
    bytes.push_back({});
    EXPECT_FALSE(codec->decode({}, {0, length}, bytes, out));
  }
}

TEST_P(CodecProperty, ACheckpointHoldsHowManyWereClamped) {
  const auto codec = make(), loaded = make();
  codec->encode({}, {0, 2}, Floats{FLT_MAX, -FLT_MAX});
  const bool clamps = entry().name == "fp16" || entry().name == "bf16";
  EXPECT_EQ(codec->clamped(), clamps ? 2u : 0u);
  ASSERT_TRUE(longhaul::testing::copy_state(*codec, *loaded));
  EXPECT_EQ(loaded->clamped(), codec->clamped());
  if (!clamps) return;
  const auto fed = made::contributing(entry().name, {{"error_feedback", {true}}});
  fed->encode({}, {0, 1}, Floats{FLT_MAX});
  EXPECT_EQ(fed->clamped(), 1u);
  EXPECT_EQ(fed->encoded_size(10), codec->encoded_size(10));
}

using CodecPropertyDeathTest = CodecProperty;
INSTANTIATE_TEST_SUITE_P(Registry, CodecPropertyDeathTest,
                         ::testing::ValuesIn(registry().begin(), registry().end()),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_P(CodecPropertyDeathTest, ValuesAreFinite) {
  const auto codec = make();
  for (const float bad : {INFINITY, -INFINITY, NAN})
    EXPECT_DEATH(codec->encode({}, {0, 2}, Floats{1.f, bad}), "check failed");
}

// Whoever draws, draws anew for each round, group, range and seed.
TEST(RandomCodecs, OtherVectorsAndSeedsAreRoundedOtherwise) {
  const Floats x = normal_values(400, 3);
  for (const char* kind : {"qsgd", "ternary", "random_k"}) {
    const auto codec = plain(kind, without_feedback());
    const Floats first = sent(*codec, x, {{1, 2, 3}, 4});
    for (const CodecKey& key :
         {CodecKey{{2, 2, 3}, 4}, CodecKey{{1, 3, 3}, 4}, CodecKey{{1, 2, 4}, 4}})
      EXPECT_NE(sent(*codec, x, key), first) << kind;
    EXPECT_NE(sent(*plain(kind, without_feedback(), 2), x, {{1, 2, 3}, 4}), first) << kind;
    // Nodes round by themselves, and choose places alike.
    EXPECT_EQ(sent(*codec, x, {{1, 2, 3}, 5}) == first, std::string(kind) == "random_k") << kind;
  }
}

}  // namespace
}  // namespace longhaul::codec
