#include "longhaul/codec/error_feedback.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <functional>
#include <tuple>
#include <vector>

#include <gmock/gmock.h>

#include "longhaul/base/rng.h"
#include "longhaul/codec/fp16.h"
#include "longhaul/codec/int8.h"

namespace longhaul::codec {
namespace {

using Fate = Codec::Fate;
using testing::HasSubstr;
using Floats = std::vector<float>;

enum class Inner { fp16, int8 };
std::unique_ptr<Codec> make_inner(Inner inner) {
  if (inner == Inner::fp16) return std::make_unique<Fp16>();
  return std::make_unique<Int8>();
}
std::unique_ptr<ErrorFeedback> make(Inner inner) {
  return std::make_unique<ErrorFeedback>(make_inner(inner));
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
  Archive saved;
  codec.state(saved);
  const Buffer bytes = saved.take();
  auto loaded = make(inner);
  Archive archive(bytes);
  loaded->state(archive);
  LH_CHECK(archive.finish());
  return loaded;
}

class ErrorFeedbackOf : public testing::TestWithParam<Inner> {};
INSTANTIATE_TEST_SUITE_P(Contractions, ErrorFeedbackOf, testing::Values(Inner::fp16, Inner::int8));

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
    const auto r = codec->residual(0, 0);
    ASSERT_EQ(r.size(), kSize);
    for (std::size_t i = 0; i < kSize; ++i) ASSERT_NEAR(got[i] + r[i], given[i], 1e-5) << round;
  }
}

// r <- p - q to the bit, and only when delivery is agreed.
TEST_P(ErrorFeedbackOf, DeliveredVectorLeavesExactlyWhatItsEncodingLost) {
  Random random(12, {Purpose::test});
  const auto codec = make(GetParam());
  const auto plain = make_inner(GetParam());
  Floats r(700);
  for (Round round = 0; round < 5; ++round) {
    const Floats z = normal(random, r.size());
    Floats p(r.size());
    for (std::size_t i = 0; i < r.size(); ++i) p[i] = z[i] + r[i];
    const Floats expected = send(*plain, {}, p);
    EXPECT_EQ(send(*codec, {{.round = round}}, z), expected);
    codec->settle({{.round = round}}, Fate::delivered);
    for (std::size_t i = 0; i < r.size(); ++i) r[i] = p[i] - expected[i];
    const auto residual = codec->residual(0, 0);
    EXPECT_TRUE(std::equal(r.begin(), r.end(), residual.begin(), residual.end()));
  }
}

// p = z + b r: what waits counts less each round.
TEST(ErrorFeedback, DecaysWhatWaits) {
  ErrorFeedback codec(make_inner(Inner::int8), 0.5);
  const Floats z(10, 1.f);
  for (const float expected : {1.f, 1.5f, 1.75f}) {
    codec.encode({}, {0, 10}, z);
    codec.settle({}, Fate::abandoned);
    EXPECT_EQ(codec.residual(0, 0)[3], expected);
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
  const auto plain = make_inner(GetParam());
  const Floats z = normal(random, 3000);
  for (int repeat = 0; repeat < 20; ++repeat) {
    const auto stretches = cuts(random, z.size());
    EXPECT_EQ(send(*codec, {}, z, stretches), send(*plain, {}, z, stretches)) << repeat;
    const auto p = codec->residual(0, 0);
    ASSERT_TRUE(std::equal(z.begin(), z.end(), p.begin(), p.end())) << repeat;
  }
  const auto last = cuts(random, z.size());
  const Floats q = send(*codec, {}, z, last);
  codec->settle({}, Fate::delivered);
  const auto r = codec->residual(0, 0);
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
  EXPECT_EQ(codec->residual(0, 0).size(), 400u);
  codec->encode({{.round = 1}}, {0, 100}, part(all, {0, 100}));
  codec->settle({{.round = 1}}, Fate::delivered);
  EXPECT_EQ(codec->residual(0, 0)[350], 0.1f);
  send(*codec, {{.round = 2}}, all);
  codec->settle({{.round = 2}}, Fate::abandoned);
  EXPECT_EQ(codec->residual(0, 0)[350], 0.1f + 0.3f);
  EXPECT_EQ(codec->residual(0, 0)[200], 0.3f);
}

TEST_P(ErrorFeedbackOf, OfAGroupThatIsForgottenNothingIsKept) {
  const auto codec = make(GetParam());
  const Floats z(10, 0.1f);
  for (const std::uint32_t group : {0u, 7u}) {
    send(*codec, {{0, group, 0}}, z);
    codec->settle({{0, group, 0}}, Fate::abandoned);
  }
  codec->forget(7);
  EXPECT_TRUE(codec->residual(7, 0).empty());
  EXPECT_FALSE(codec->residual(0, 0).empty());
}

TEST_P(ErrorFeedbackOf, SettlingWhatIsNotOpenChangesNothing) {
  const auto codec = make(GetParam());
  codec->settle({{.round = 3}}, Fate::delivered);  // nothing was ever encoded: phantoms, servers
  EXPECT_TRUE(codec->residual(0, 0).empty());
  const Floats z(10, 0.1f);
  send(*codec, {{.round = 4}}, z);
  codec->settle({{.round = 3}}, Fate::delivered);
  codec->settle({{.round = 4}}, Fate::abandoned);
  codec->settle({{.round = 4}}, Fate::delivered);
  EXPECT_THAT(codec->residual(0, 0), testing::ElementsAreArray(z));
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
  Archive saved;
  codec->state(saved);
  const Buffer bytes = saved.take();
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    const auto loaded = make(GetParam());
    Archive torn{std::span(bytes).first(size)};
    loaded->state(torn);
    ASSERT_FALSE(torn.finish()) << size;
  }
  Buffer longer = bytes;  // ends with the stretch's 8 bytes of offset and 8 of end
  longer[longer.size() - 8] = std::byte{41};
  Archive wrong(longer);
  make(GetParam())->state(wrong);
  ASSERT_FALSE(wrong.finish());
  EXPECT_THAT(wrong.finish().error().what, HasSubstr("error feedback"));
}

TEST_P(ErrorFeedbackOf, LargestFloatsStayFinite) {
  const auto codec = make(GetParam());
  const Floats z = {FLT_MAX, -FLT_MAX, FLT_MAX / 3};
  for (Round round = 0; round < 4; ++round) {
    for (float value : send(*codec, {{.round = round}}, z)) EXPECT_TRUE(std::isfinite(value));
    codec->settle({{.round = round}}, round % 2 == 0 ? Fate::abandoned : Fate::delivered);
    EXPECT_TRUE(all_finite(codec->residual(0, 0)));
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

TEST(ErrorFeedback, CountsWhatTheCodecInsideClamps) {
  const auto codec = make(Inner::fp16);
  send(*codec, {}, {70000.f, 1.f});
  EXPECT_EQ(codec->clamped(), 1u);
  EXPECT_EQ(codec->encoded_size(10), 20u);
}

TEST(ErrorFeedbackDeathTest, ChecksThatTheVectorBeforeIsSettled) {
  const auto codec = make(Inner::int8);
  send(*codec, {{.round = 0}}, {1.f});
  EXPECT_DEATH(send(*codec, {{.round = 1}}, {1.f}), "check failed");
}

}  // namespace
}  // namespace longhaul::codec
