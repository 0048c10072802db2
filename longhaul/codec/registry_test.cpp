#include "longhaul/codec/registry.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <rapidcheck.h>

#include "longhaul/base/rng.h"
#include "longhaul/base/testing/archived.h"
#include "longhaul/base/testing/result.h"
#include "longhaul/codec/draws.h"
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
using ::testing::AllOf;
using ::testing::HasSubstr;
using Fate = Codec::Fate;
using Floats = std::vector<float>;

using made::table_of;

Setting setting(std::string key, Value value) { return {std::move(key), value, "job.toml", 3}; }
const Setting kFeedback = setting("error_feedback", {true});

TEST(CodecRegistry, NamesAreUniqueAndEveryEntrySaysWhatItCosts) {
  std::set<std::string_view> names;
  for (const CodecEntry& entry : registry()) {
    EXPECT_TRUE(names.insert(entry.name).second) << entry.name;
    EXPECT_FALSE(entry.summary.empty()) << entry.name;
    EXPECT_FALSE(entry.cost.bytes.empty() || entry.cost.error.empty()) << entry.name;
  }
  EXPECT_EQ(registry().front().name, "fp32");
}

TEST(CodecRegistry, EveryEntryRefusesAMisspeltOrMistypedKey) {
  for (const CodecEntry& entry : registry()) {
    for (const FieldDoc& doc : entry.describe()) {
      const std::string key(doc.field.name);
      const auto misspelt =
          entry.make(table_of(entry.name, {setting(key + "x", doc.data)}), Place{}, CodecUse::sum);
      ASSERT_FALSE(misspelt) << entry.name << key;
      EXPECT_THAT(misspelt.error().what,
                  AllOf(HasSubstr("job.toml:3"), HasSubstr("did you mean '" + key + "'")));
      EXPECT_THAT(failure(entry.make(table_of(entry.name, {setting(key, {std::vector<Value>{}})}),
                                     Place{}, CodecUse::sum))
                      .what,
                  HasSubstr("[codec] " + key + ": expected"))
          << entry.name << key;
    }
  }
}

TEST(CodecRegistry, UnknownKindNamesTheNearest) {
  const auto codec = make_codec(table_of("fp166"), Place{}, false);
  ASSERT_FALSE(codec);
  EXPECT_THAT(codec.error().what,
              AllOf(HasSubstr("job.toml:2: [codec] kind"), HasSubstr("did you mean 'fp16'")));
  Settings number = table_of("fp16");
  number.set(setting("kind", {std::int64_t{16}}));
  ASSERT_FALSE(make_codec(number, Place{}, true));
  EXPECT_THAT(make_codec(number, Place{}, true).error().what, HasSubstr("a string in quotes"));
}

// Bytes of a codec made for a second time tell whether a residual was carried over.
bool feeds_back(Codec& codec) {
  const std::vector<float> values = {1.f, 0.0011f};
  const Buffer first = codec.encode({{.round = 0}}, {0, 2}, values);
  codec.settle({{.round = 0}}, Codec::Fate::abandoned);
  return codec.encode({{.round = 1}}, {0, 2}, values) != first;
}

TEST(CodecRegistry, FeedbackIsForThoseWhoAskIfTheJobWantsIt) {
  for (const char* kind : {"fp16", "int8"}) {
    EXPECT_TRUE(feeds_back(**make_codec(table_of(kind, {kFeedback}), Place{}, true))) << kind;
    EXPECT_FALSE(feeds_back(**make_codec(table_of(kind, {kFeedback}), Place{}, false))) << kind;
    EXPECT_FALSE(feeds_back(**make_codec(table_of(kind), Place{}, true))) << kind;
    EXPECT_TRUE(*wants_error_feedback(table_of(kind, {kFeedback})));
    EXPECT_FALSE(*wants_error_feedback(table_of(kind)));
  }
  Settings empty{.table = "codec", .file = "job.toml", .line = 0, .entries = {}};
  EXPECT_EQ((*entry_of(empty))->name, "fp32");
  EXPECT_TRUE(make_codec(empty, Place{}, true));
}

// only contractions are wrapped; that they are is tested below.
TEST(CodecRegistry, R4_2_OnlyContractionsAreWrapped) {
  for (const CodecEntry& entry : registry()) {
    const auto made = make_codec(table_of(entry.name, {kFeedback}), Place{}, true);
    EXPECT_EQ(bool(made), !refuses_feedback(entry)) << entry.name;
    if (entry.traits.feedback) EXPECT_FALSE(refuses_feedback(entry)) << entry.name;
  }
  CodecEntry noisy = registry()[1];
  noisy.traits = {.algebra = Algebra::reencode, .contraction = false, .unbiased = true};
  ASSERT_TRUE(refuses_feedback(noisy));
  EXPECT_THAT(*refuses_feedback(noisy), HasSubstr("no contraction"));
}

TEST(CodecRegistry, FeedbackAroundALosslessCodecIsRefusedAsPointless) {
  for (bool feedback : {false, true}) {
    const auto codec = make_codec(table_of("fp32", {kFeedback}), Place{}, feedback);
    ASSERT_FALSE(codec);
    EXPECT_THAT(codec.error().what, AllOf(HasSubstr("job.toml:3: [codec] error_feedback"),
                                          HasSubstr("fp32"), HasSubstr("loses nothing")));
  }
  EXPECT_TRUE(make_codec(table_of("fp32", {setting("error_feedback", {false})}), Place{}, true));
}

// What every codec of the registry promises by its traits: a codec added there is tested here.

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
      if (entry().traits.lossless) EXPECT_EQ(q, x);
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
  auto made = good(make_codec(made::table_of(entry().name, entry().small), Place{}, false));
  const Floats z = sent(*made::contributing(entry().name, entry().small), normal_values(900, 8));
  const Floats q = sent(**made, z, {{}, 3});
  if (entry().traits.algebra != Algebra::reencode) EXPECT_EQ(q, z);
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

// The bytes that codecs write are a format: whatever makes a loop faster must not change one.
// Hashes of what every codec writes, and of what it reads back, recorded before any loop was
// vectorised.

class GoldenHash {  // FNV-1a, 64 bits
 public:
  void add(std::span<const std::byte> bytes) {
    for (const std::byte byte : bytes) hash_ = (hash_ ^ std::uint64_t(byte)) * 1099511628211u;
  }
  std::uint64_t value() const { return hash_; }

 private:
  std::uint64_t hash_ = 14695981039346656037u;
};

// Ordinary values, tiny, huge and equal ones, zeros of both signs.
std::vector<float> golden_values(std::size_t length) {
  Random random(11, {Purpose::test, 3});
  std::vector<float> values(length);
  for (std::size_t i = 0; i < length; ++i) {
    const float value = float(random.normal());
    const float shapes[] = {value, value * 1e-6f, value * 1e-41f, value * 3e4f, 0.f, -0.f, 0.25f};
    values[i] = shapes[i % 5 == 0 ? random.below(7) : 0];
  }
  return values;
}

std::uint64_t golden_hash(const CodecEntry& entry) {
  const auto codec = made::contributing(entry.name, made::without_feedback());
  GoldenHash hash;
  CodecKey key;
  for (const std::size_t length : {1u, 7u, 64u, 511u, 1000u, 4099u}) {
    const std::vector<float> values = golden_values(length);
    const Range at{key.round * 8, length};
    const Buffer bytes = codec->encode(key, at, values);
    std::vector<float> out(length);
    EXPECT_TRUE(codec->decode(key, at, bytes, out));
    hash.add(bytes);
    hash.add(std::as_bytes(std::span(out)));
    codec->settle(key, Codec::Fate::delivered);
    ++key.round;
  }
  return hash.value();
}

TEST(Golden, CodecsWriteTheBytesThatTheyWrote) {
  const std::pair<std::string_view, std::uint64_t> recorded[] = {
      {"fp32", 0xab906322e1dfe125u},      {"fp16", 0x3a29d4164b4f2176u},
      {"int8", 0x70540feb59f3b51cu},      {"bf16", 0x41df73d3b4e41f1du},
      {"qsgd", 0x3137d49887d66aeu},       {"ternary", 0x59c0390a4542d3a8u},
      {"sign", 0x68dceb0c8013181eu},      {"top_k", 0x30efc111206d0dd4u},
      {"q_top_k", 0x5a4a3147c32e1d9cu},   {"random_k", 0xb36405d8654409f5u},
      {"dgc", 0xc6a17731674acddu},        {"demo", 0xac26e0c420fb125cu},
      {"bi_sparse", 0xd7137ce85ece3c4bu}, {"sparse", 0xf6412be0324ebb65u}};
  for (const CodecEntry& entry : registry()) {
    const auto* found =
        std::ranges::find(recorded, entry.name, [](const auto& r) { return r.first; });
    ASSERT_NE(found, std::end(recorded)) << entry.name;
    EXPECT_EQ(golden_hash(entry), found->second) << entry.name;
  }
}

TEST(Draws, AreThoseOfEachElementWhereverTheyBegin) {
  CodecKey key;
  key.round = (std::uint64_t{3} << 32) + 5;
  const Draws draws(9, key);
  for (const std::uint64_t first : {0u, 1u, 2u, 3u, 4u, 62u, 1001u})
    for (const std::size_t count : {0u, 1u, 3u, 5u, 63u, 64u, 65u, 200u}) {
      std::vector<std::uint32_t> all(count);
      draws.fill(first, all);
      for (std::size_t i = 0; i < count; ++i)
        ASSERT_EQ(all[i], draws.at(first + i)) << first << " + " << i;
    }
  std::vector<std::uint32_t> far(70);  // over the end of the counter's lower half
  const std::uint64_t end = std::uint64_t{4} << 32;
  draws.fill(end - 33, far);
  for (std::size_t i = 0; i < far.size(); ++i) ASSERT_EQ(far[i], draws.at(end - 33 + i));
}

}  // namespace
}  // namespace longhaul::codec
