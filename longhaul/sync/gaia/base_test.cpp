#include "longhaul/sync/gaia/base.h"

#include <gtest/gtest.h>

#include "longhaul/base/rng.h"

namespace longhaul::sync::gaia {
namespace {

const std::vector<Range> kRanges = {{0, 3}, {3, 2}};

Base base_with(const std::set<Slot>& slots, std::vector<float> b = {1, 1, 1, 1, 1}) {
  Base base(kRanges);
  base.begin(std::move(b), 0, 0, slots, 0);
  return base;
}

RangeUpdate all_of(std::uint32_t range, std::vector<float> values) {
  return {.range = range, .count = values.size(), .indexes = {}, .values = std::move(values)};
}
RangeUpdate one_of(std::uint32_t range, std::uint32_t index, float value) {
  return {.range = range, .count = 1, .indexes = {index}, .values = {value}};
}

TEST(GaiaBase, TakesClocksThatAllHaveSent) {
  Base base = base_with({0, 1});
  base.add(0, 1, one_of(0, 2, 5));
  base.close(0, 1, 10);
  base.close(0, 2, 10);
  base.advance();
  EXPECT_EQ(base.clock(), 0u);
  EXPECT_EQ(base.slowest(), 0u);
  EXPECT_EQ(base.at_most(0), (std::vector<Slot>{1}));
  base.add(1, 1, all_of(1, {1, 2}));
  base.close(1, 1, 3);
  base.advance();
  EXPECT_EQ(base.clock(), 1u);
  EXPECT_EQ(base.samples(), 13u);
  EXPECT_EQ(base.b(), (std::vector<float>{1, 1, 6, 2, 3}));
}

// w = b + inbox + acc, of clocks that are not too far ahead
TEST(GaiaBase, ReadsTheInboxUpToAClock) {
  Base base = base_with({0, 1});
  base.add(0, 1, one_of(0, 0, 4));
  base.close(0, 1, 0);
  base.add(0, 2, one_of(0, 0, 16));
  std::vector<float> w(5);
  const std::vector<float> acc = {0, 0.5f, 0, 0, 0};
  base.read(0, acc, w);
  EXPECT_EQ(w, (std::vector<float>{1, 1.5f, 1, 1, 1}));
  base.read(1, acc, w);
  EXPECT_EQ(w, (std::vector<float>{5, 1.5f, 1, 1, 1}));
  base.read(2, acc, w);
  EXPECT_EQ(w, (std::vector<float>{21, 1.5f, 1, 1, 1}));
}

// gaia_test.cpp, invariant 2: whatever the order of arrival, the bits of b at a clock.
TEST(GaiaBase, HasTheSameBitsInEveryOrderOfArrival) {
  constexpr std::uint32_t kSites = 5;
  constexpr Round kClocks = 4;
  std::vector<float> first;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    Random random(seed, {});
    Base base = base_with({0, 1, 2, 3, 4}, {1e6f, -3, 0.1f, 7, 1});
    std::map<Slot, Round> sent;
    while (base.clock() < kClocks) {
      const auto slot = Slot(random.below(kSites));
      if (sent[slot] == kClocks) continue;
      const Round clock = ++sent[slot];
      const auto part = [&](Round i) { return 0.1f * float(slot + 1) * float(clock + i) * 1e-3f; };
      base.add(slot, clock, all_of(0, {part(1), part(2), part(3)}));
      base.add(slot, clock, one_of(1, 1, part(4)));
      base.close(slot, clock, 1);
      base.advance();
    }
    if (first.empty()) first = base.b();
    EXPECT_EQ(base.b(), first) << seed;
    EXPECT_EQ(base.values_kept(), 0u);
  }
}

TEST(GaiaBase, KnowsWhatItHasAlready) {
  Base base = base_with({0, 1});
  EXPECT_TRUE(base.is_new(1, 1, 0));
  base.add(1, 1, one_of(0, 0, 1));
  EXPECT_FALSE(base.is_new(1, 1, 0));
  EXPECT_TRUE(base.is_new(1, 1, 1));
  base.close(1, 1, 0);
  EXPECT_FALSE(base.is_new(1, 1, 1));
  EXPECT_TRUE(base.is_new(1, 2, 0));
}

// A hub sends the samples of its group on, a donor those of b: neither may fail by what one says.
TEST(GaiaBase, TooManySamplesOfOneStayWithinWhatIsSent) {
  constexpr auto kMost = std::uint64_t(kMostSamples);
  Base base = base_with({0, 1});
  base.close(0, 1, kMost);
  base.close(1, 1, 32);
  EXPECT_EQ(base.samples_of({0, 1}, 1), kMost);
  base.advance();
  EXPECT_EQ(base.samples(), kMost);
}

TEST(GaiaBase, AHubSumsInDoubleAndLeavesOutWhatCancels) {
  Base base = base_with({0, 1, 2});
  base.add(0, 1, all_of(0, {1e8f, 2, 0.5f}));
  base.add(1, 1, all_of(0, {1, -2, 0.25f}));
  base.add(2, 1, one_of(0, 0, -1e8f));
  for (const Slot slot : {0u, 1u, 2u}) base.close(slot, 1, slot + 1);
  const auto sums = base.sum({0, 1, 2}, 1);
  ASSERT_EQ(sums.size(), 1u);
  EXPECT_EQ(sums[0].indexes, (std::vector<std::uint32_t>{0, 2}));
  EXPECT_EQ(sums[0].values, (std::vector<float>{1, 0.75f}));
  EXPECT_EQ(sums[0].count, 2u);
  EXPECT_EQ(base.samples_of({0, 2}, 1), 4u);
  EXPECT_EQ(base.sum({1}, 1)[0].values, (std::vector<float>{1, -2, 0.25f}));
}

// After a loss: another's b, and of the inbox this site's own updates alone.
TEST(GaiaBase, BeginsAnewWithItsOwnLaterUpdates) {
  Base base = base_with({0, 1, 2});
  for (Round clock = 1; clock <= 3; ++clock) {
    base.add(0, clock, one_of(0, 0, 1));
    base.close(0, clock, 7);
    base.add(1, clock, one_of(0, 1, 1));
    base.close(1, clock, 7);
  }
  base.begin({2, 2, 2, 2, 2}, 2, 28, {0, 1}, 0);
  EXPECT_EQ(base.mirror(0), 3u);
  EXPECT_EQ(base.mirror(1), 2u);
  EXPECT_EQ(base.values_kept(), 1u);
  base.close(1, 3, 7);
  base.advance();
  EXPECT_EQ(base.b(), (std::vector<float>{3, 2, 2, 2, 2}));
  EXPECT_EQ(base.samples(), 42u);
  Archive save;
  base.state(save);
  const Buffer bytes = save.take();
  Base again(kRanges);
  Archive load(bytes);
  again.state(load);
  EXPECT_TRUE(load.finish());
  EXPECT_EQ(again.b(), base.b());
  EXPECT_EQ(again.mirror(0), 3u);
}

}  // namespace
}  // namespace longhaul::sync::gaia
