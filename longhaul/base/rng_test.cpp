#include "longhaul/base/rng.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <vector>

#include <gtest/gtest.h>

namespace longhaul {
namespace {

// Known answers of Random123's kat_vectors for philox4x32, 10 rounds.
TEST(Philox, KnownAnswers) {
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}),
            (PhiloxBlock{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (PhiloxBlock{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (PhiloxBlock{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

std::vector<std::uint32_t> draws(std::uint64_t seed, Stream stream, int count = 16) {
  Random random(seed, stream);
  std::vector<std::uint32_t> out;
  for (int i = 0; i < count; ++i) out.push_back(random.bits32());
  return out;
}

TEST(Random, IsAFunctionOfSeedAndStream) {
  const Stream stream{Purpose::jitter, 3, 4, 5};
  EXPECT_EQ(draws(7, stream), draws(7, stream));
}

TEST(Random, EveryPartOfTheKeyMatters) {
  const std::vector<std::pair<std::uint64_t, Stream>> keys = {
      {7, {}},
      {8, {}},
      {7 + (std::uint64_t{1} << 40), {}},
      {7, {.purpose = Purpose::codec}},
      {7, {.round = 1}},
      {7, {.origin = 1}},
      {7, {.range = 1}},
  };
  std::set<std::vector<std::uint32_t>> seen;
  for (const auto& [seed, stream] : keys) seen.insert(draws(seed, stream));
  EXPECT_EQ(seen.size(), keys.size());
}

TEST(Random, BlocksOfOneStreamDiffer) {
  const std::vector<std::uint32_t> all = draws(1, {}, 4096);
  EXPECT_GE(std::set<std::uint32_t>(all.begin(), all.end()).size(), 4090u);
}

TEST(Random, UniformStaysInRangeAndAveragesAHalf) {
  Random random(1, {});
  double sum = 0;
  for (int i = 0; i < 20000; ++i) {
    const double u = random.uniform();
    ASSERT_GE(u, 0.0);
    ASSERT_LT(u, 1.0);
    sum += u;
  }
  EXPECT_NEAR(sum / 20000, 0.5, 0.01);  // five standard errors
}

// 2^64 mod bound values would be drawn once too often; with this bound a third of all draws are.
TEST(Random, BelowHasNoBias) {
  const std::uint64_t bound = (std::uint64_t{1} << 63) + (std::uint64_t{1} << 62);
  Random random(1, {});
  int low = 0;
  for (int i = 0; i < 20000; ++i) {
    const std::uint64_t draw = random.below(bound);
    ASSERT_LT(draw, bound);
    low += draw < bound / 3;
  }
  EXPECT_NEAR(low / 20000.0, 1.0 / 3, 0.02);
}

TEST(Random, BelowCoversSmallRanges) {
  Random random(1, {});
  std::vector<int> count(7);
  for (int i = 0; i < 7000; ++i) ++count[random.below(7)];
  for (int n : count) EXPECT_NEAR(n, 1000, 150);
  EXPECT_EQ(random.below(1), 0u);
}

struct Moments {
  double mean = 0;
  double variance = 0;
};

template <class Draw>
Moments moments(Draw draw, int n = 40000) {
  double sum = 0, squares = 0;
  for (int i = 0; i < n; ++i) {
    const double x = draw();
    EXPECT_TRUE(std::isfinite(x));
    sum += x;
    squares += x * x;
  }
  const double mean = sum / n;
  return {mean, squares / n - mean * mean};
}

TEST(Random, NormalHasMeanZeroAndVarianceOne) {
  Random random(1, {});
  const Moments m = moments([&] { return random.normal(); });
  EXPECT_NEAR(m.mean, 0, 0.03);
  EXPECT_NEAR(m.variance, 1, 0.05);
}

TEST(Random, GammaHasMeanAndVarianceOfItsShape) {
  for (double shape : {0.1, 0.5, 1.0, 3.0}) {
    Random random(1, {});
    const Moments m = moments([&] { return random.gamma(shape); });
    EXPECT_NEAR(m.mean, shape, 0.05 * shape + 0.01) << shape;
    EXPECT_NEAR(m.variance, shape, 0.12 * shape + 0.01) << shape;
  }
}

TEST(Random, ShuffleIsAPermutationAndEveryPlaceIsReached) {
  std::vector<int> first(5);
  for (std::uint32_t round = 0; round < 1000; ++round) {
    std::vector<int> values(5);
    std::iota(values.begin(), values.end(), 0);
    Random(1, {.round = round}).shuffle(std::span(values));
    ++first[std::size_t(values[0])];
    std::sort(values.begin(), values.end());
    for (int i = 0; i < 5; ++i) ASSERT_EQ(values[std::size_t(i)], i);
  }
  for (int n : first) EXPECT_NEAR(n, 200, 65);
}

}  // namespace
}  // namespace longhaul
