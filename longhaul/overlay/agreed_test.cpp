#include "longhaul/overlay/agreed.h"

#include <gtest/gtest.h>

#include "longhaul/base/testing/effort.h"
#include "longhaul/overlay/testing/forms.h"

namespace longhaul::overlay {
namespace {

using longhaul::testing::cases;
using longhaul::testing::kGate;
using longhaul::testing::kStride;
using testing::Exchange;
using testing::ExchangeConfig;
using testing::forms;
using testing::name;

TEST(Agreed, AllHoldTheMeanOfAll) {
  std::uint32_t number = 0;
  for (ExchangeConfig c : forms()) {
    for (std::uint32_t workers : {1u, 2u, 3u, 5u}) {
      for (std::uint64_t length : {1u, 4u, (kGate ? 2u : 16u) * 1024 + 7}) {
        if (kGate && number++ % 2 != 0) continue;
        c.workers = workers;
        c.length = length;
        c.buffers = 33;
        c.rounds = kGate ? 2 : 3;
        c.order = length + workers;
        Exchange exchange(c);
        exchange.run();
        EXPECT_EQ(exchange.disagreement(), "") << name(c);
      }
    }
  }
}

// Trees of any size, and vectors of fewer values than there are workers.
TEST(Agreed, TreesOfAnySizeHoldTheMeanOfVectorsOfAnyLength) {
  for (ExchangeConfig c : forms()) {
    if (c.kind != "rack" && c.kind != "binary" && c.kind != "halving_doubling") continue;
    c.rounds = 1;
    const auto run = [&](std::uint32_t workers, std::uint64_t length) {
      c.workers = workers;
      c.length = length;
      Exchange exchange(c);
      exchange.run();
      EXPECT_EQ(exchange.disagreement(), "") << name(c);
    };
    constexpr std::uint32_t kMost = kGate ? 9 : 17;
    for (std::uint32_t workers = 1; workers <= kMost; ++workers) run(workers, 1 + workers % 2 * 30);
    for (const std::uint32_t workers : {24u, 31u, 32u, 33u, 40u})
      if (!kGate || workers == 24) run(workers, 31);
    for (const std::uint32_t workers : {6u, 21u})
      if (!kGate || workers == 6) run(workers, kGate ? 1027 : 4099);
    c.chunk_bytes = kGate ? 4 * 1024 : 256 * 1024;
    run(3, (kGate ? 1u << 14 : 1u << 20) + 3);
  }
}

// Runs until event `at`, then lets `victim` die, and `second` some events later.
std::string after_crash(const ExchangeConfig& c, std::uint64_t at, Rank victim,
                        std::optional<Rank> second, std::uint64_t later, bool* ended) {
  Exchange exchange(c);
  for (std::uint64_t i = 0; i < at; ++i)
    if (!exchange.step()) *ended = true;
  exchange.net().crash(victim);
  if (second) {
    for (std::uint64_t i = 0; i < later; ++i) exchange.step();
    exchange.net().crash(*second);
  }
  exchange.run();
  return exchange.disagreement();
}

// Every how many events somebody dies; in the gate a few times a run, however long it is.
std::uint64_t crash_stride(const ExchangeConfig& c, std::uint64_t moments) {
  if (!kGate) return kStride;
  Exchange exchange(c);
  exchange.run();
  return std::max(kStride, exchange.net().events() / moments);
}

class AgreedForm : public ::testing::TestWithParam<std::size_t> {};

// Small pieces, so that a round has few events and each can be the last of somebody.
ExchangeConfig small(ExchangeConfig c, std::uint32_t workers) {
  c.workers = workers;
  c.length = 8 * workers + 3;
  c.chunk_bytes = 16;
  c.rounds = 2;
  c.lossy = true;
  return c;
}

TEST_P(AgreedForm, R2_1_OneCrashAtAnyEvent) {
  std::uint64_t runs = 0;
  for (std::uint32_t workers = 2; workers <= 4; ++workers) {
    const ExchangeConfig c = small(forms()[GetParam()], workers);
    const std::uint64_t stride = crash_stride(c, 3);
    for (Rank victim = 0; victim < workers + (c.server ? 1 : 0); ++victim) {
      if (kGate && (victim + workers + GetParam()) % 3 != 0) continue;
      bool ended = false;
      for (std::uint64_t at = victim % stride; !ended; at += stride, ++runs)
        ASSERT_EQ(after_crash(c, at, victim, {}, 0, &ended), "")
            << name(c) << ", crash of " << victim << " at " << at;
    }
  }
  EXPECT_GT(runs, kGate ? 4 : 1000u / kStride);
}

INSTANTIATE_TEST_SUITE_P(Forms, AgreedForm, ::testing::Range(std::size_t{0}, forms().size()));

TEST(Agreed, R2_1_TwoCrashes) {
  Random random(1, {});
  for (const ExchangeConfig& form : forms()) {
    for (std::uint32_t workers = 3; workers <= 4; ++workers) {
      for (std::uint64_t sample = 0; sample < 400; sample += (kGate ? 5 : 1) * kStride) {
        ExchangeConfig c = small(form, workers);
        c.order = random.bits32();
        const Rank victim = Rank(random.below(workers));
        const Rank second = (victim + 1 + Rank(random.below(workers - 1))) % workers;
        const std::uint64_t at = random.below(400), later = random.below(60);
        bool ended = false;
        ASSERT_EQ(after_crash(c, at, victim, second, later, &ended), "")
            << name(c) << ", crash of " << victim << " at " << at << " and of " << second << " "
            << later << " later";
      }
    }
  }
}

// Of chunks and vectors as they are in use.
TEST(Agreed, R2_1_CrashesAmongManyChunks) {
  constexpr std::uint64_t kEvery = kStride == 1 ? 1 : 3;  // of both numbers of workers
  Random random(2, {});
  for (ExchangeConfig c : forms()) {
    for (std::uint64_t sample = 0; sample < 6; sample += kEvery) {
      c.workers = sample % 2 == 0 ? 3 : 4;
      c.length = (kGate ? 1 : 16) * 1024 + 7;
      c.buffers = 5;
      c.order = random.bits32();
      bool ended = false;
      const std::uint64_t at = random.below(1500);
      ASSERT_EQ(after_crash(c, at, Rank(random.below(c.workers)), {}, 0, &ended), "")
          << name(c) << " at " << at;
    }
  }
}

TEST(Agreed, R2_2_BitsDoNotDependOnTheOrderOfEvents) {
  for (ExchangeConfig c : forms()) {
    if (c.kind == "tsengine" || c.learned) continue;  // on its schedule, which does
    c.workers = 4;
    std::vector<Outcome> first;
    for (c.order = 1; c.order <= cases(20); ++c.order) {
      Exchange exchange(c);
      exchange.run();
      ASSERT_EQ(exchange.disagreement(), "") << name(c);
      const std::vector<Outcome>& outcomes = exchange.at(0).outcomes();
      if (first.empty()) first = outcomes;
      for (Round round = 0; round < c.rounds; ++round) {
        ASSERT_EQ(outcomes[round].values, first[round].values) << name(c);
        ASSERT_EQ(outcomes[round].weight, first[round].weight) << name(c);
      }
    }
  }
}

TEST(Agreed, R2_3_EqualInputsComeBackBitEqual) {
  for (ExchangeConfig c : forms()) {
    for (std::uint32_t workers : {1u, 2u, 3u, 5u, 16u}) {
      if (kGate && workers == 16) continue;
      c.workers = workers;
      c.equal = true;
      Exchange exchange(c);
      exchange.run();
      ASSERT_EQ(exchange.disagreement(), "") << name(c);
      for (Round round = 0; round < c.rounds; ++round)
        EXPECT_EQ(exchange.at(0).outcomes()[round].values, vector_of(c, 0, round, 0)) << name(c);
    }
  }
}

// Nobody is left who brings anything: an empty mean, for all.
TEST(Agreed, WhenEveryContributorIsLostTheMeanIsEmpty) {
  for (const ExchangeConfig& form : forms()) {
    ExchangeConfig c = small(form, 3);
    c.contributes = [](Rank rank, Round) { return rank == 1; };
    bool ended = false, seen = false;
    for (std::uint64_t at = 0; !ended; at += kGate ? 17 : 1) {
      Exchange exchange(c);
      for (std::uint64_t i = 0; i < at; ++i) ended |= !exchange.step();
      exchange.net().crash(1);
      exchange.run();
      ASSERT_EQ(exchange.disagreement(), "") << name(c) << " at " << at;
      const Outcome& last = exchange.at(0).outcomes().back();
      seen |= last.counted.empty() && last.values.empty() && last.weight == 0;
    }
    EXPECT_TRUE(seen) << name(c);
  }
}

TEST(Agreed, SavingAndLoadingAfterEveryEventEqualsGoingOn) {
  for (ExchangeConfig c : forms()) {
    c.length = 700;
    c.chunk_bytes = 64;
    c.lossy = true;
    c.buffers = 3;
    Exchange plain(c), saved(c);
    for (std::uint64_t events = 0;; ++events) {
      if (events == 40) plain.net().crash(1), saved.net().crash(1);
      const bool more = plain.step();
      ASSERT_EQ(saved.step(), more);
      if (!more) break;
      if (events % kStride != 0) continue;
      for (Rank rank = 0; rank < c.workers + (c.server ? 1 : 0); ++rank)
        saved.net().save_and_load(rank);
    }
    ASSERT_EQ(saved.disagreement(), "") << name(c);
    EXPECT_EQ(saved.net().messages(), plain.net().messages()) << name(c);
    for (Round round = 0; round < c.rounds; ++round)
      EXPECT_EQ(saved.at(0).outcomes()[round].values, plain.at(0).outcomes()[round].values);
  }
}

}  // namespace
}  // namespace longhaul::overlay
