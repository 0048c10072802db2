#include "longhaul/codec/momentum_correction.h"

#include <gmock/gmock.h>

#include "longhaul/base/rng.h"
#include "longhaul/codec/error_feedback.h"
#include "longhaul/codec/testing/made.h"
#include "longhaul/codec/top_k.h"

namespace longhaul::codec {
namespace {

using Fate = Codec::Fate;
using Floats = std::vector<float>;

std::unique_ptr<MomentumCorrection> corrected(double ratio, float momentum, bool masks = true) {
  return std::make_unique<MomentumCorrection>(
      std::make_unique<ErrorFeedback>(std::make_unique<TopK>(TopK::Config{.ratio = ratio})),
      momentum, masks);
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
    const auto kept = codec->momentum(0, 0);
    for (std::size_t i = 0; i < kSize; ++i) ASSERT_NEAR(double(kept[i]), u[i], 1e-4);
  }
  // What waits is sent when all is asked for.
  Archive saved;
  codec->state(saved);
  const Buffer bytes = saved.take();
  const auto rest = corrected(1, 0.9f);
  Archive archive(bytes);
  rest->state(archive);
  ASSERT_TRUE(archive.finish());
  const Floats last = made::sent(*rest, Floats(kSize, 0.f), {{.round = 99}});
  for (std::size_t i = 0; i < kSize; ++i)
    EXPECT_NEAR(got[i] + double(last[i]), all[i] + 0.9 * u[i], 1e-4);
}

TEST(MomentumCorrection, LoadedAfterEveryOperationGoesOnAlike) {
  auto steady = corrected(0.2, 0.9f), reborn = corrected(0.2, 0.9f);
  const auto reload = [&] {
    Archive saved;
    reborn->state(saved);
    const Buffer bytes = saved.take();
    reborn = corrected(0.2, 0.9f);
    Archive archive(bytes);
    reborn->state(archive);
    ASSERT_TRUE(archive.finish());
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
  EXPECT_TRUE(reborn->momentum(0, 0).empty());
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

}  // namespace
}  // namespace longhaul::codec
