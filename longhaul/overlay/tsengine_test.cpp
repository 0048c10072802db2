// The parts of tsengine's coordinator, which know no network: docs/overlay/tsengine.md has the
// invariants.
#include <gtest/gtest.h>

#include <cmath>

#include "longhaul/overlay/tsengine.h"

namespace longhaul::overlay::tsengine {
namespace {

using namespace std::chrono_literals;
using Ranks = std::vector<Rank>;

// mutant: longhaul/overlay/tsengine_throughput.cpp
//   - const double rate = double(bytes) / seconds(std::max(elapsed, Time{1}));
//   + const double rate = 1 / seconds(std::max(elapsed, Time{1}));
// mutant: longhaul/overlay/tsengine_throughput.cpp
//   - links_[{from, to}] = {known ? weight_ * rate + (1 - weight_) * *known : rate, round};
//   + links_[{from, to}] = {weight_ * rate + (1 - weight_) * known.value_or(0), round};
TEST(TsEngineThroughput, TS_10_HalfTheRateOfALinkIsHalfTheValue) {
  Throughput learned(0.5, 5);
  learned.learn(0, 1, 1'000'000, 100ms, 0);
  learned.learn(0, 2, 1'000'000, 200ms, 0);
  EXPECT_DOUBLE_EQ(*learned.of(0, 1, 0), 1e7);
  EXPECT_DOUBLE_EQ(*learned.of(0, 2, 0), 0.5e7);
  EXPECT_FALSE(learned.of(1, 0, 0)) << "the way back is another link";
  learned.learn(0, 1, 1'000'000, 200ms, 1);
  EXPECT_DOUBLE_EQ(*learned.of(0, 1, 1), 0.75e7) << "half of each";
  EXPECT_EQ(learned.size(), 2u);
}

// mutant: longhaul/overlay/tsengine_throughput.cpp
//   - if (link == links_.end() || old(link->second, now)) return std::nullopt;
//   + if (link == links_.end()) return std::nullopt;
// mutant: longhaul/overlay/tsengine_throughput.cpp
//   - std::erase_if(links_, [&](const auto& entry) { return old(entry.second, now); });
//   +
TEST(TsEngineThroughput, WhatIsOldIsForgottenAndFailuresCountAsNothing) {
  Throughput learned(0.5, 5);
  learned.learn(0, 1, 1000, 1s, 3);
  EXPECT_TRUE(learned.of(0, 1, 8));
  EXPECT_FALSE(learned.of(0, 1, 9));
  learned.failed(0, 1, 4);
  EXPECT_EQ(learned.of(0, 1, 9), 0.0);
  learned.forget(9);
  EXPECT_EQ(learned.size(), 1u);
  learned.forget(10);
  EXPECT_EQ(learned.size(), 0u);
}

// mutant: longhaul/overlay/tsengine_choice.cpp
//   - const double p = std::min(known / double(candidates.size()), greed);
//   + const double p = std::min(std::floor(known / double(candidates.size())), greed);
TEST(TsEngineChoice, TS_7_GreedIsTheShareOfTheKnown) {
  constexpr int kDraws = 10'000;
  const Ranks candidates = {1, 2, 3, 4, 5, 6};
  const Rate half = [](Rank, Rank to) {
    return to <= 3 ? std::optional(double(to)) : std::nullopt;
  };
  for (const double greed : {0.9, 0.3}) {
    int greedy = 0;
    for (int i = 0; i < kDraws; ++i) {
      Random random(7, {Purpose::test, std::uint64_t(i)});
      const Rank to = choose_receiver(0, candidates, half, greed, random);
      EXPECT_GE(to, 3u) << "neither the fastest nor unknown";
      greedy += to == 3;
    }
    const double p = std::min(0.5, greed);
    EXPECT_NEAR(greedy, kDraws * p, 3 * std::sqrt(kDraws * p * (1 - p))) << greed;
  }
}

// mutant: longhaul/overlay/tsengine_choice.cpp
//   - if (unknown.empty()) return candidates[random.below(candidates.size())];
//   + if (unknown.empty()) return candidates[0];
// mutant: longhaul/overlay/tsengine_choice.cpp
//   - } else if (!fastest || *known > fastest->first) {
//   + } else if (!fastest || *known >= fastest->first) {
TEST(TsEngineChoice, TS_7_WithAllKnownAndLittleGreedEveryoneIsChosen) {
  const Ranks candidates = {1, 2, 3};
  const Rate equal = [](Rank, Rank) { return std::optional(1.0); };
  std::map<Rank, int> chosen;
  for (int i = 0; i < 3000; ++i) {
    Random random(7, {Purpose::test, std::uint64_t(i)});
    ++chosen[choose_receiver(0, candidates, equal, 0.5, random)];
  }
  EXPECT_NEAR(chosen[1], 2000, 120) << "the lowest of equal ones";
  EXPECT_NEAR(chosen[2], 500, 80);
  EXPECT_NEAR(chosen[3], 500, 80);
}

const Rate kUnknown = [](Rank, Rank) -> std::optional<double> { return std::nullopt; };

// mutant: longhaul/overlay/tsengine_gather.cpp
//   - return there > back ? Pair{first, second} : Pair{second, first};
//   + return there >= back ? Pair{first, second} : Pair{second, first};
// mutant: longhaul/overlay/tsengine_gather.cpp
//   - if (second == server_) return {first, second};
//   +
TEST(TsEngineGather, FirstReadyFirstPaired) {
  Gather gather(9);
  Slots slots;
  for (const Rank rank : {4u, 2u, 6u}) gather.ready(rank);
  EXPECT_EQ(gather.match(slots, kUnknown), (Pair{4, 9})) << "the server receives";
  EXPECT_EQ(gather.match(slots, kUnknown), (Pair{6, 2})) << "of equal ones the later sends";
  EXPECT_FALSE(gather.match(slots, kUnknown));
  gather.ready(2), gather.ready(9);
  EXPECT_EQ(gather.match(slots, kUnknown), (Pair{2, 9}));
  gather.ready(1), gather.ready(3);
  const Rate known = [](Rank from, Rank) { return from == 1 ? std::optional(5.0) : std::nullopt; };
  EXPECT_EQ(gather.match(slots, known), (Pair{1, 3})) << "over the faster link";
}

// mutant: longhaul/overlay/tsengine_gather.cpp
//   - if (!slots.out_free(found.from) || !slots.in_free(found.to)) continue;
//   + if (!slots.out_free(found.from)) continue;
TEST(TsEngineGather, TS_4_WhoIsBusyIsPassedOver) {
  Gather gather(9);
  Slots slots;
  slots.take(7, 9);  // of another bucket
  gather.ready(1);
  EXPECT_FALSE(gather.match(slots, kUnknown));
  gather.ready(2);
  EXPECT_EQ(gather.match(slots, kUnknown), (Pair{2, 1}));
  gather.ready(7);
  EXPECT_FALSE(gather.match(slots, kUnknown));
  slots.free_out(7), slots.free_in(9);
  EXPECT_EQ(gather.match(slots, kUnknown), (Pair{7, 9}));
}

// mutant: longhaul/overlay/tsengine_spread.cpp
//   - if (stand == stands_.end() || stand->second >= Stand::has) return false;
//   + if (stand == stands_.end()) return false;
TEST(TsEngineSpread, TS_1_ABucketIsReceivedOnce) {
  Spread spread(0, {1, 2});
  Slots slots;
  EXPECT_EQ(spread.candidates(slots), (Ranks{1, 2}));
  spread.assigned(1);
  EXPECT_EQ(spread.candidates(slots), (Ranks{2}));
  spread.failed(1);
  EXPECT_EQ(spread.candidates(slots), (Ranks{1, 2}));
  spread.assigned(1);
  spread.served(1);
  EXPECT_TRUE(spread.received(1)) << "its sender said it first";
  EXPECT_FALSE(spread.received(1));
  EXPECT_FALSE(spread.received(0)) << "the server had it";
  EXPECT_FALSE(spread.received(7));
  spread.failed(1);
  EXPECT_EQ(spread.candidates(slots), (Ranks{2})) << "has it whatever else is said";
  EXPECT_FALSE(spread.all_have());
  EXPECT_TRUE(spread.received(2));
  EXPECT_TRUE(spread.all_have());
  for (const Rank rank : {0u, 1u, 2u}) {
    EXPECT_FALSE(spread.over());
    spread.let_go(rank);
  }
  EXPECT_TRUE(spread.over());
}

TEST(TsEngineSlots, TS_6_NobodyIsPairedWithItself) {
  Slots slots;
  EXPECT_DEATH(slots.take(1, 1), "from != to");
  slots.take(1, 2);
  EXPECT_DEATH(slots.take(1, 3), "free");
}

// mutant: longhaul/overlay/tsengine_sum.cpp
//   - into.values[i] = float(mean + share * (double(other.values[i]) - mean));
//   + into.values[i] = float((mean + double(other.values[i])) / 2);
TEST(TsEngineSum, TS_3_MixesByWeightAndKeepsCount) {
  Sum sum;
  mix(sum, {2, {3}, {1, 10}});
  mix(sum, {6, {0, 5}, {5, 10}});
  EXPECT_EQ(sum.values, (std::vector<float>{4, 10})) << "equal ones come back bit-equal";
  EXPECT_EQ(sum.weight, 8);
  EXPECT_EQ(sum.counted, (Ranks{0, 3, 5}));
}

// mutant: longhaul/overlay/tsengine_sum.cpp
//   - LH_CHECK(other.weight > 0 && disjoint(into.counted, other.counted));
//   +
TEST(TsEngineSum, TS_2_NobodyIsAddedTwice) {
  Sum sum{2, {3}, {1}};
  EXPECT_DEATH(mix(sum, {2, {1, 3}, {1}}), "disjoint");
}

}  // namespace
}  // namespace longhaul::overlay::tsengine
