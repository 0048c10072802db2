// Invariants of error feedback (in this file unless another is named):
//   the sum of all delivered q and r equals the sum of all z (1e-5); the same for every
//          codec: registry_test.cpp
//   only contractions are wrapped, and they lose less than they are given: registry_test.cpp
//   momentum with all values sent: SGD if masked, momentum SGD if not (1e-5); sent and
//          waiting values add up to the sum of u
//   -      repeats, new cuts, separate ranges, save and load, checkpoints torn at every byte
#include "longhaul/codec/feedback.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <vector>

#include <gmock/gmock.h>

#include "longhaul/base/rng.h"
#include "longhaul/base/testing/archived.h"
#include "longhaul/codec/testing/made.h"

namespace longhaul::codec {
namespace {

using ::testing::HasSubstr;
using Fate = Codec::Fate;
using Floats = std::vector<float>;

using Inner = const char*;  // the name of a codec
std::unique_ptr<ErrorFeedback> make(Inner inner) {
  return std::make_unique<ErrorFeedback>(made::plain(inner));
}

Floats normal(Random& random, std::size_t size) {
  Floats values(size);
  for (float& value : values) value = float(random.normal());
  return values;
}

// [0, size) cut at random.
std::vector<Range> cuts(Random& random, std::uint64_t size) {
  std::vector<Range> ranges;
  for (std::uint64_t at = 0; at < size;) {
    const std::uint64_t length = std::min(size - at, 1 + random.below(600));
    ranges.push_back({at, length});
    at += length;
  }
  return ranges;
}

std::span<const float> part(const Floats& values, Range at) {
  return std::span(values).subspan(at.offset, at.length);
}

// Encodes the stretches of `values` in the order given; what a receiver decodes.
Floats send(Codec& codec, const CodecKey& key, const Floats& values,
            const std::vector<Range>& stretches) {
  Floats received(values.size());
  for (const Range& at : stretches) {
    const Buffer bytes = codec.encode(key, at, part(values, at));
    LH_CHECK(codec.decode(key, at, bytes, std::span(received).subspan(at.offset, at.length)));
  }
  return received;
}
Floats send(Codec& codec, const CodecKey& key, const Floats& values) {
  return send(codec, key, values, {{0, values.size()}});
}

std::unique_ptr<ErrorFeedback> save_and_load(ErrorFeedback& codec, Inner inner) {
  auto loaded = make(inner);
  LH_CHECK(longhaul::testing::copy_state(codec, *loaded));
  return loaded;
}

class ErrorFeedbackOf : public ::testing::TestWithParam<Inner> {};
INSTANTIATE_TEST_SUITE_P(Contractions, ErrorFeedbackOf, ::testing::Values("fp16", "int8"));

// the sum of all delivered q and of r is the sum of all z (1e-5), whatever was abandoned,
// and however vectors were cut.
TEST_P(ErrorFeedbackOf, R4_1_DeliveredAndResidualAddUpToWhatWasGiven) {
  constexpr std::size_t kSize = 2000;
  Random random(11, {Purpose::test});
  const auto codec = make(GetParam());
  std::vector<double> given(kSize), got(kSize);
  for (Round round = 0; round < 60; ++round) {
    const Floats z = normal(random, kSize);
    const Floats q = send(*codec, {{.round = round}}, z, cuts(random, kSize));
    const bool delivered = random.below(4) != 0;
    codec->settle({{.round = round}}, delivered ? Fate::delivered : Fate::abandoned);
    for (std::size_t i = 0; i < kSize; ++i) {
      given[i] += z[i];
      if (delivered) got[i] += q[i];
    }
    const auto r = codec->carried(0, 0);
    ASSERT_EQ(r.size(), kSize);
    for (std::size_t i = 0; i < kSize; ++i) ASSERT_NEAR(got[i] + r[i], given[i], 1e-5) << round;
  }
}

// r <- p - q to the bit, and only when delivery is agreed.
TEST_P(ErrorFeedbackOf, DeliveredVectorLeavesExactlyWhatItsEncodingLost) {
  Random random(12, {Purpose::test});
  const auto codec = make(GetParam());
  const auto plain = made::plain(GetParam());
  Floats r(700);
  for (Round round = 0; round < 5; ++round) {
    const Floats z = normal(random, r.size());
    Floats p(r.size());
    for (std::size_t i = 0; i < r.size(); ++i) p[i] = z[i] + r[i];
    const Floats expected = send(*plain, {}, p);
    EXPECT_EQ(send(*codec, {{.round = round}}, z), expected);
    codec->settle({{.round = round}}, Fate::delivered);
    for (std::size_t i = 0; i < r.size(); ++i) r[i] = p[i] - expected[i];
    const auto residual = codec->carried(0, 0);
    EXPECT_TRUE(std::equal(r.begin(), r.end(), residual.begin(), residual.end()));
  }
}

// p = z + b r: what waits counts less each round.
TEST(ErrorFeedback, DecaysWhatWaits) {
  ErrorFeedback codec(made::plain("int8"), 0.5);
  const Floats z(10, 1.f);
  for (const float expected : {1.f, 1.5f, 1.75f}) {
    codec.encode({}, {0, 10}, z);
    codec.settle({}, Fate::abandoned);
    EXPECT_EQ(codec.carried(0, 0)[3], expected);
  }
}

TEST_P(ErrorFeedbackOf, ARepeatBeforeSettlingGivesTheSameBytes) {
  Random random(13, {Purpose::test});
  const auto codec = make(GetParam());
  for (Round round = 0; round < 4; ++round) {
    const CodecKey key{{.round = round}};
    const Floats z = normal(random, 1500);
    const auto stretches = cuts(random, z.size());
    std::vector<Buffer> first;
    for (const Range& at : stretches) first.push_back(codec->encode(key, at, part(z, at)));
    for (std::size_t i = stretches.size(); i-- > 0;)
      EXPECT_EQ(codec->encode(key, stretches[i], part(z, stretches[i])), first[i]);
    codec->settle(key, round % 2 == 0 ? Fate::delivered : Fate::abandoned);
  }
}

// After a loss the vector is cut anew among fewer members: z and r are still added once, and the
// residual is that of the bytes sent last.
TEST_P(ErrorFeedbackOf, ARepeatCutOtherwiseEncodesTheSameSum) {
  Random random(14, {Purpose::test});
  const auto codec = make(GetParam());
  const auto plain = made::plain(GetParam());
  const Floats z = normal(random, 3000);
  for (int repeat = 0; repeat < 20; ++repeat) {
    const auto stretches = cuts(random, z.size());
    EXPECT_EQ(send(*codec, {}, z, stretches), send(*plain, {}, z, stretches)) << repeat;
    const auto p = codec->carried(0, 0);
    ASSERT_TRUE(std::equal(z.begin(), z.end(), p.begin(), p.end())) << repeat;
  }
  const auto last = cuts(random, z.size());
  const Floats q = send(*codec, {}, z, last);
  codec->settle({}, Fate::delivered);
  const auto r = codec->carried(0, 0);
  for (std::size_t i = 0; i < z.size(); ++i) ASSERT_EQ(r[i], z[i] - q[i]);
}

TEST_P(ErrorFeedbackOf, GroupsAndRangesAreApartAndSettleInAnyOrder) {
  Random random(15, {Purpose::test});
  std::vector<std::pair<std::uint32_t, std::uint32_t>> places = {{0, 0}, {0, 1}, {1, 0}, {1, 1}};
  const auto together = make(GetParam());
  std::vector<std::unique_ptr<ErrorFeedback>> alone;
  for (std::size_t i = 0; i < places.size(); ++i) alone.push_back(make(GetParam()));
  for (Round round = 0; round < 6; ++round) {
    for (std::size_t i = 0; i < places.size(); ++i) {
      const CodecKey key{{round, places[i].first, places[i].second}};
      const Floats z = normal(random, 300 + 10 * i);
      EXPECT_EQ(send(*together, key, z), send(*alone[i], key, z));
    }
    std::vector<std::size_t> order = {0, 1, 2, 3};
    random.shuffle(std::span(order));
    for (std::size_t i : order) {
      const CodecKey key{{round, places[i].first, places[i].second}};
      const Fate fate = (round + i) % 3 == 0 ? Fate::abandoned : Fate::delivered;
      together->settle(key, fate);
      alone[i]->settle(key, fate);
    }
  }
}

// Elements that no stretch covered keep what they carry.
TEST_P(ErrorFeedbackOf, GrowsWithItsStretchesAndKeepsWhatWasNotSent) {
  const auto codec = make(GetParam());
  const Floats tail(100, 0.1f), all(400, 0.3f);
  codec->encode({{.round = 0}}, {300, 100}, tail);
  codec->settle({{.round = 0}}, Fate::abandoned);
  EXPECT_EQ(codec->carried(0, 0).size(), 400u);
  codec->encode({{.round = 1}}, {0, 100}, part(all, {0, 100}));
  codec->settle({{.round = 1}}, Fate::delivered);
  EXPECT_EQ(codec->carried(0, 0)[350], 0.1f);
  send(*codec, {{.round = 2}}, all);
  codec->settle({{.round = 2}}, Fate::abandoned);
  EXPECT_EQ(codec->carried(0, 0)[350], 0.1f + 0.3f);
  EXPECT_EQ(codec->carried(0, 0)[200], 0.3f);
}

TEST_P(ErrorFeedbackOf, OfAGroupThatIsForgottenNothingIsKept) {
  const auto codec = make(GetParam());
  const Floats z(10, 0.1f);
  for (const std::uint32_t group : {0u, 7u}) {
    send(*codec, {{0, group, 0}}, z);
    codec->settle({{0, group, 0}}, Fate::abandoned);
  }
  codec->forget(7);
  EXPECT_TRUE(codec->carried(7, 0).empty());
  EXPECT_FALSE(codec->carried(0, 0).empty());
}

TEST_P(ErrorFeedbackOf, SettlingWhatIsNotOpenChangesNothing) {
  const auto codec = make(GetParam());
  codec->settle({{.round = 3}}, Fate::delivered);  // nothing was ever encoded: phantoms, servers
  EXPECT_TRUE(codec->carried(0, 0).empty());
  const Floats z(10, 0.1f);
  send(*codec, {{.round = 4}}, z);
  codec->settle({{.round = 3}}, Fate::delivered);
  codec->settle({{.round = 4}}, Fate::abandoned);
  codec->settle({{.round = 4}}, Fate::delivered);
  EXPECT_THAT(codec->carried(0, 0), ::testing::ElementsAreArray(z));
}

// Saving and loading after every operation equals going on.
TEST_P(ErrorFeedbackOf, LoadedAfterEveryOperationGoesOnAlike) {
  Random random(16, {Purpose::test});
  auto steady = make(GetParam());
  auto reborn = make(GetParam());
  for (Round round = 0; round < 6; ++round) {
    for (std::uint32_t range : {0u, 1u}) {
      const CodecKey key{{round, 0, range}, 2};
      const Floats z = normal(random, 900);
      for (int repeat = 0; repeat < 2; ++repeat) {
        for (const Range& at : cuts(random, z.size())) {
          reborn = save_and_load(*reborn, GetParam());
          ASSERT_EQ(steady->encode(key, at, part(z, at)), reborn->encode(key, at, part(z, at)));
        }
      }
    }
    for (std::uint32_t range : {1u, 0u}) {
      const CodecKey key{{round, 0, range}, 2};
      const Fate fate = random.below(3) == 0 ? Fate::abandoned : Fate::delivered;
      reborn = save_and_load(*reborn, GetParam());
      steady->settle(key, fate);
      reborn->settle(key, fate);
    }
  }
}

TEST_P(ErrorFeedbackOf, RefusesCheckpointsThatAreTornOrDoNotFitTogether) {
  const auto codec = make(GetParam());
  codec->encode({}, {0, 40}, Floats(40, 1.f));
  const Buffer bytes = longhaul::testing::saved(*codec);
  for (std::size_t size = 0; size < bytes.size(); ++size)
    ASSERT_FALSE(longhaul::testing::load(*make(GetParam()), std::span(bytes).first(size))) << size;
  Buffer longer = bytes;  // ends with the stretch's 8 bytes of offset and 8 of end
  longer[longer.size() - 8] = std::byte{41};
  const Status wrong = longhaul::testing::load(*make(GetParam()), longer);
  ASSERT_FALSE(wrong);
  EXPECT_THAT(wrong.error().what, HasSubstr("error feedback"));
}

TEST_P(ErrorFeedbackOf, LargestFloatsStayFinite) {
  const auto codec = make(GetParam());
  const Floats z = {FLT_MAX, -FLT_MAX, FLT_MAX / 3};
  for (Round round = 0; round < 4; ++round) {
    for (float value : send(*codec, {{.round = round}}, z)) EXPECT_TRUE(std::isfinite(value));
    codec->settle({{.round = round}}, round % 2 == 0 ? Fate::abandoned : Fate::delivered);
    EXPECT_TRUE(all_finite(codec->carried(0, 0)));
  }
}

// A residual that stays bounded is what makes feedback work: constant z, any number of rounds.
TEST_P(ErrorFeedbackOf, MeanOfManyRoundsTendsToTheConstantVector) {
  Random random(17, {Purpose::test});
  const auto codec = make(GetParam());
  const Floats z = normal(random, 256);
  std::vector<double> got(z.size());
  constexpr int kRounds = 1000;
  for (int round = 0; round < kRounds; ++round) {
    const Floats q = send(*codec, {{.round = Round(round)}}, z);
    codec->settle({{.round = Round(round)}}, Fate::delivered);
    for (std::size_t i = 0; i < z.size(); ++i) got[i] += q[i];
  }
  for (std::size_t i = 0; i < z.size(); ++i) EXPECT_NEAR(got[i] / kRounds, z[i], 5e-5);
}

TEST(ErrorFeedbackDeathTest, ChecksThatTheVectorBeforeIsSettled) {
  const auto codec = make("int8");
  send(*codec, {{.round = 0}}, {1.f});
  EXPECT_DEATH(send(*codec, {{.round = 1}}, {1.f}), "check failed");
}

// Against one flag an element.
TEST(Cover, GapsAndRangesAreThoseOfAListOfFlags) {
  Random random(3, {});
  for (int trial = 0; trial < 100; ++trial) {
    constexpr std::uint64_t kSize = 40;
    Cover cover;
    std::vector<bool> covered(kSize, false);
    EXPECT_TRUE(cover.empty());
    for (int step = 0; step < 8; ++step) {
      const std::uint64_t from = random.below(kSize), length = random.below(kSize - from);
      cover.add({from, length});
      for (std::uint64_t i = from; i < from + length; ++i) covered[i] = true;
      std::vector<bool> in_ranges(kSize, false), in_gaps(kSize, false);
      std::uint64_t last = 0;
      for (const Range& range : cover.ranges()) {
        EXPECT_TRUE(range.offset > last || last == 0) << "touching or out of order";
        for (std::uint64_t i = range.offset; i < range.end(); ++i) in_ranges[i] = true;
        last = range.end();
      }
      EXPECT_EQ(cover.end(), last);
      const Range at{5, 25};
      for (const Range& gap : cover.gaps(at))
        for (std::uint64_t i = gap.offset; i < gap.end(); ++i) in_gaps[i] = true;
      EXPECT_EQ(in_ranges, covered);
      for (std::uint64_t i = 0; i < kSize; ++i)
        EXPECT_EQ(in_gaps[i], i >= at.offset && i < at.end() && !covered[i]) << i;
    }
    cover.clear();
    EXPECT_TRUE(cover.empty());
  }
}

TEST(Cover, WhatIsLoadedIsInOrder) {
  Cover cover;
  cover.add({3, 4});
  cover.add({20, 5});
  Cover loaded;
  ASSERT_TRUE(longhaul::testing::copy_state(cover, loaded));
  EXPECT_EQ(loaded.ranges(), cover.ranges());
  std::map<std::uint64_t, std::uint64_t> overlapping{{3, 9}, {5, 12}};
  Archive bad;
  bad(overlapping);
  EXPECT_FALSE(longhaul::testing::load(loaded, bad.take()));
}

std::unique_ptr<MomentumCorrection> corrected(double ratio, float momentum, bool masks = true) {
  return std::make_unique<MomentumCorrection>(
      std::make_unique<ErrorFeedback>(made::plain("top_k", {{"ratio", {ratio}}})), momentum, masks);
}

// all is sent and masked: what is sent is the gradient itself, SGD without momentum.
TEST(MomentumCorrection, R4_3_OfAllValuesMaskedIsTheGradient) {
  const auto codec = corrected(1, 0.9f);
  for (Round round = 0; round < 5; ++round) {
    const Floats g = made::normal_values(50, round);
    EXPECT_EQ(made::sent(*codec, g, {{.round = round}}), g);
    codec->settle({{.round = round}}, Fate::delivered);
  }
}

// all is sent and nothing masked: momentum SGD (1e-5).
TEST(MomentumCorrection, R4_3_OfAllValuesUnmaskedIsMomentum) {
  const auto codec = corrected(1, 0.9f, /*masks=*/false);
  std::vector<double> u(50);
  for (Round round = 0; round < 20; ++round) {
    const Floats g = made::normal_values(50, round);
    const Floats q = made::sent(*codec, g, {{.round = round}});
    codec->settle({{.round = round}}, Fate::delivered);
    for (std::size_t i = 0; i < u.size(); ++i) {
      u[i] = 0.9 * u[i] + double(g[i]);
      EXPECT_NEAR(double(q[i]), u[i], 1e-5);
    }
  }
}

// The sum of what was sent and of what waits is the sum over time of u, recomputed with its mask.
TEST(MomentumCorrection, SentAndWaitingAddUpToTheSumOfTheMomentum) {
  const auto codec = corrected(0.1, 0.9f);
  constexpr std::size_t kSize = 200;
  Random random(3, {Purpose::test});
  std::vector<double> u(kSize), all(kSize), got(kSize);
  for (Round round = 0; round < 40; ++round) {
    const CodecKey key{{.round = round}};
    const Floats g = made::normal_values(kSize, round);
    const Floats q = made::sent(*codec, g, key);
    EXPECT_EQ(made::sent(*codec, g, key), q);  // a repeat moves nothing
    const bool delivered = random.below(4) != 0;
    codec->settle(key, delivered ? Fate::delivered : Fate::abandoned);
    for (std::size_t i = 0; i < kSize; ++i) {
      u[i] = 0.9 * u[i] + double(g[i]);
      all[i] += u[i];
      if (!delivered) continue;
      got[i] += double(q[i]);
      if (q[i] != 0) u[i] = 0;
    }
    const auto kept = codec->carried(0, 0);
    for (std::size_t i = 0; i < kSize; ++i) ASSERT_NEAR(double(kept[i]), u[i], 1e-4);
  }
  // What waits is sent when all is asked for.
  const auto rest = corrected(1, 0.9f);
  ASSERT_TRUE(longhaul::testing::copy_state(*codec, *rest));
  const Floats last = made::sent(*rest, Floats(kSize, 0.f), {{.round = 99}});
  for (std::size_t i = 0; i < kSize; ++i)
    EXPECT_NEAR(got[i] + double(last[i]), all[i] + 0.9 * u[i], 1e-4);
}

TEST(MomentumCorrection, LoadedAfterEveryOperationGoesOnAlike) {
  auto steady = corrected(0.2, 0.9f), reborn = corrected(0.2, 0.9f);
  const auto reload = [&] {
    const Buffer bytes = longhaul::testing::saved(*reborn);
    reborn = corrected(0.2, 0.9f);
    ASSERT_TRUE(longhaul::testing::load(*reborn, bytes));
  };
  for (Round round = 0; round < 6; ++round) {
    const Floats g = made::normal_values(60, round);
    for (const Range at : {Range{0, 20}, Range{20, 40}, Range{10, 30}}) {
      reload();
      const auto part = std::span(g).subspan(at.offset, at.length);
      ASSERT_EQ(steady->encode({{.round = round}}, at, part),
                reborn->encode({{.round = round}}, at, part));
    }
    reload();
    const Fate fate = round % 3 == 1 ? Fate::abandoned : Fate::delivered;
    steady->settle({{.round = round}}, fate);
    reborn->settle({{.round = round}}, fate);
  }
  reborn->forget(0);
  EXPECT_TRUE(reborn->carried(0, 0).empty());
}

TEST(MomentumCorrection, IsOfCodecsWhoseSettingsAskForIt) {
  const auto has = [](std::string_view kind, std::vector<Setting> keys) {
    const auto codec = made::contributing(kind, std::move(keys));
    return dynamic_cast<MomentumCorrection*>(codec.get()) != nullptr;
  };
  EXPECT_TRUE(has("dgc", {}));
  EXPECT_FALSE(has("dgc", {{"feedback_momentum", {0.0}}}));
  EXPECT_FALSE(has("dgc", made::without_feedback()));
  EXPECT_FALSE(has("top_k", {}));
  EXPECT_TRUE(has("top_k", {{"feedback_momentum", {0.9}}}));
}

TEST(ErrorFeedback, CountsWhatTheCodecInsideClamps) {
  const auto codec = make("fp16");
  send(*codec, {}, {70000.f, 1.f});
  EXPECT_EQ(codec->clamped(), 1u);
  EXPECT_EQ(codec->encoded_size(10), 20u);
}

}  // namespace

}  // namespace longhaul::codec
