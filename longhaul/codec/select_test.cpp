#include "longhaul/codec/select.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include <gmock/gmock.h>
#include <rapidcheck/gtest.h>

namespace longhaul::codec {
namespace {

using ::testing::ElementsAre;
using Floats = std::vector<float>;

TEST(Select, CountIsTheShareRoundedUpAndOneAtLeast) {
  EXPECT_EQ(count_of(0.01, 100), 1u);
  EXPECT_EQ(count_of(0.07, 100), 7u);
  EXPECT_EQ(count_of(0.01, 101), 2u);
  EXPECT_EQ(count_of(0.01, 3), 1u);
  EXPECT_EQ(count_of(1, 3), 3u);
  EXPECT_EQ(count_of(0.5, 0), 0u);
}

TEST(Select, LargestTakesTheFirstOfEqualOnesAndNoZeros) {
  EXPECT_THAT(largest(Floats{1, -3, 2, 3, -3}, 2, 0), ElementsAre(1u, 3u));
  EXPECT_THAT(largest(Floats{1, -3, 2, 3, -3}, 4, 0), ElementsAre(1u, 2u, 3u, 4u));
  EXPECT_THAT(largest(Floats{0, -0.f, 2, 0}, 3, 0), ElementsAre(2u));
  EXPECT_TRUE(largest(Floats{0, 0}, 2, 0).empty());
  EXPECT_TRUE(largest(Floats{}, 0, 0).empty());
  EXPECT_THAT(largest(Floats{FLT_TRUE_MIN, FLT_MAX}, 2, 0), ElementsAre(0u, 1u));
}

TEST(Select, LargestLeavesOutWhatIsBelowTheThreshold) {
  EXPECT_THAT(largest(Floats{0.5f, -1.f, 2.f, 0.9f}, 4, 1.f), ElementsAre(1u, 2u));
  EXPECT_THAT(largest(Floats{0.5f, -1.f, 2.f, 0.9f}, 1, 1.f), ElementsAre(2u));
  EXPECT_TRUE(largest(Floats{0.5f}, 1, 1.f).empty());
}

// Against sorting all by (magnitude descending, place).
RC_GTEST_PROP(Select, LargestIsWhatSortingFinds, ()) {
  const auto whole = *rc::gen::nonEmpty<std::vector<int>>();
  Floats values(whole.size());
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = std::ldexp(float(whole[i] % 8), whole[i] % 5);
  const std::size_t count = *rc::gen::inRange<std::size_t>(0, values.size() + 1);
  std::vector<std::uint32_t> order(values.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    return std::abs(values[a]) > std::abs(values[b]);
  });
  order.resize(count);
  std::erase_if(order, [&](std::uint32_t i) { return values[i] == 0; });
  std::sort(order.begin(), order.end());
  RC_ASSERT(largest(values, count, 0) == order);
}

TEST(Select, RandomPlacesAreAsManyAndAscend) {
  for (const std::size_t length : {1u, 63u, 64u, 65u, 1000u})
    for (const std::size_t count : {std::size_t{0}, std::size_t{1}, length / 2, length}) {
      const auto places = random_places(Draws(1, {}), {7, length}, std::min(count, length));
      EXPECT_EQ(places.size(), std::min(count, length));
      EXPECT_TRUE(std::is_sorted(places.begin(), places.end()));
      EXPECT_TRUE(places.empty() || places.back() < length);
    }
}

// All 10 pairs of 5 places are drawn equally often: within five standard deviations.
TEST(Select, AllSetsOfPlacesAreEquallyLikely) {
  constexpr int kRounds = 10000;
  std::map<std::vector<std::uint32_t>, int> counts;
  for (Round round = 0; round < kRounds; ++round)
    ++counts[random_places(Draws(3, {{.round = round}}), {0, 5}, 2)];
  ASSERT_EQ(counts.size(), 10u);
  for (const auto& [places, count] : counts)
    EXPECT_NEAR(count, kRounds / 10, 5 * std::sqrt(kRounds * 0.1 * 0.9));
}

TEST(Draws, AreOneForEachElementHoweverTheyAreAskedFor) {
  const Draws draws(5, {{1, 2, 3}, 4});
  std::vector<std::uint32_t> all(40), some(7);
  draws.fill(0, all);
  for (std::uint64_t first = 0; first < 33; ++first) {
    draws.fill(first, some);
    EXPECT_TRUE(std::equal(some.begin(), some.end(), all.begin() + std::ptrdiff_t(first)));
    EXPECT_EQ(draws.at(first), all[first]);
  }
}

// All parts of the name count, the upper half of a round's number and of an element's place too.
TEST(Draws, DifferByAllOfTheirName) {
  std::set<std::uint32_t> seen;
  const CodecKey key{{1, 2, 3}, 4};
  for (const CodecKey& name :
       {key, CodecKey{{2, 2, 3}, 4}, CodecKey{{1, 3, 3}, 4}, CodecKey{{1, 2, 4}, 4},
        CodecKey{{1, 2, 3}, 5}, CodecKey{{(Round{1} << 32) + 1, 2, 3}, 4}})
    for (const std::uint64_t seed : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{1} << 40})
      for (const std::uint64_t element : {std::uint64_t{0}, std::uint64_t{1} << 35})
        EXPECT_TRUE(seen.insert(Draws(seed, name).at(element)).second);
}

}  // namespace
}  // namespace longhaul::codec
