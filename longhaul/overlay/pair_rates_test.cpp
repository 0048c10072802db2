#include "longhaul/overlay/pair_rates.h"

#include <gtest/gtest.h>

#include "longhaul/base/testing/archived.h"

namespace longhaul::overlay::forest {
namespace {

constexpr std::uint64_t kBytes = 1000;

Time ms(double count) { return from_seconds(count / 1e3); }

// `count` pieces that were queued for a peer at `begin`, of which the host takes two at once and
// the others every `each` ms.
void burst(PairRates& rates, Rank to, double begin, double each, int count) {
  for (int i = 0; i < count; ++i) {
    const double waited = std::max(i - 1, 0) * each;
    rates.on_sent(to, kBytes, ms(waited), ms(begin + waited));
  }
}

double rate_of(const PairRates& rates, Rank to) { return rates.pairs().at(to).rate; }

// Two that fill the host's room at once are not counted, nor is what was sent after a pause.
TEST(PairRates, F12_OnlyWhatALinkDidWithoutAPauseCounts) {
  PairRates rates(0.5, 0.2);
  for (int i = 0; i < 5; ++i) burst(rates, 1, 1000 * i, 2, 10);
  rates.close();
  EXPECT_NEAR(rate_of(rates, 1), kBytes / 2e-3, 1);
}

// A link that was never busy, or hardly, says nothing.
TEST(PairRates, AFewMessagesSayNothing) {
  PairRates rates(0.5, 0.2);
  burst(rates, 1, 0, 2, 5);
  for (int i = 0; i < 100; ++i) rates.on_sent(2, kBytes, Time{0}, ms(i));
  rates.close();
  EXPECT_TRUE(rates.pairs().empty());
  EXPECT_EQ(rates.up(), 0) << "too few for the port as well";
}

TEST(PairRates, F13_NoiseIsMixedAndAStepTakesThePlace) {
  PairRates rates(0.5, 0.2);
  burst(rates, 1, 0, 2, 20);
  rates.close();
  const double first = rate_of(rates, 1);
  burst(rates, 1, 500, 2, 20);
  rates.close();
  EXPECT_EQ(rate_of(rates, 1), first) << "nothing of the round before counts";
  burst(rates, 1, 1000, 1.8, 20);
  rates.close();
  const double noisy = (kBytes / 2e-3 + kBytes / 1.8e-3) / 2;
  EXPECT_NEAR(rate_of(rates, 1), noisy, 1);
  burst(rates, 1, 2000, 20, 20);
  rates.close();
  EXPECT_NEAR(rate_of(rates, 1), kBytes / 20e-3, 1);
}

// One peer alone gets all of a full port; beside another each gets half, which is no loss of the
// pair's. The pair that is slower than the other is.
TEST(PairRates, F14_SharingAFullPortLowersNoPair) {
  PairRates rates(0.5, 0.2);
  for (const Rank to : {1u, 2u, 3u}) {
    burst(rates, to, 1000. * to, 1, 200);
    rates.close();
  }
  EXPECT_NEAR(rates.up(), kBytes / 1e-3, 20);
  const auto shared = [&](double begin) {
    for (int i = 0; i < 300; ++i)
      for (const auto& [to, each] : {std::pair{1u, 2.1}, {2u, 2.1}, {3u, 21.}}) {
        const double waited = std::max(i - 1, 0) * each;
        if (waited < 500) rates.on_sent(to, kBytes, ms(waited), ms(begin + waited));
      }
  };
  shared(10'000);
  rates.close();
  EXPECT_GT(rate_of(rates, 1), 0.9 * kBytes / 1e-3);
  EXPECT_NEAR(rate_of(rates, 3), kBytes / 21e-3, 5);
}

// A port that two nodes of a site share carries all for one of them while the other is idle, and
// half for each when both send: full, too. A third of it is not.
TEST(PairRates, ANeighbourThatSendsThroughThePortLowersNoPair) {
  for (const double each : {2., 3.}) {
    PairRates rates(0.5, 0.2);
    burst(rates, 1, 0, 1, 200);
    rates.close(2);
    burst(rates, 1, 1000, each, 200);
    rates.close(2);
    const double alone = kBytes / 1e-3;
    if (each < 2.5)
      EXPECT_GT(rate_of(rates, 1), 0.9 * alone);
    else
      EXPECT_NEAR(rate_of(rates, 1), alone / 3, 5);
  }
}

TEST(PairRates, WhatIsNotMeasuredGrowsOld) {
  PairRates rates(0.5, 0.2);
  burst(rates, 1, 0, 2, 20);
  for (int i = 0; i < 4; ++i) rates.close();
  EXPECT_EQ(rates.pairs().at(1).age, 3u);
  burst(rates, 1, 1000, 2, 20);
  rates.close();
  EXPECT_EQ(rates.pairs().at(1).age, 0u);
}

// The busiest run of a port counts, and is forgotten slowly.
TEST(PairRates, F15_APortIsWhatItCarriedAtMost) {
  PairRates rates(0.5, 0.2);
  double now = 0;
  const auto come = [&](double each, int count) {
    for (int i = 0; i < count; ++i) rates.on_received(kBytes, ms(now += each));
  };
  come(1, 129);
  come(10, 64);
  rates.close();
  EXPECT_NEAR(rates.down(), kBytes / 1e-3, 1);
  come(10, 129);
  rates.close();
  EXPECT_NEAR(rates.down(), 0.991 * kBytes / 1e-3, 1);
  EXPECT_EQ(rates.up(), 0);
}

TEST(PairRates, F15_ARunOfAPortBeginsWhereTheOneBeforeEnded) {
  PairRates rates(0.5, 0.2);
  double now = 0;
  for (int i = 0; i < 129; ++i) rates.on_received(kBytes, ms(now += i < 65 ? 10 : 1));
  rates.close();
  EXPECT_NEAR(rates.down(), kBytes / 1e-3, 1);
}

TEST(PairRates, SavingAndLoadingEqualsGoingOn) {
  PairRates plain(0.5, 0.2), saved(0.5, 0.2);
  for (int i = 0; i < 40; ++i) {
    for (PairRates* one : {&plain, &saved}) {
      one->on_sent(1, kBytes, ms(i > 0 ? 2 : 0), ms(2 * i));
      one->on_received(kBytes, ms(i));
    }
    PairRates loaded(0.5, 0.2);
    ASSERT_TRUE(longhaul::testing::copy_state(saved, loaded));
    saved = loaded;
  }
  plain.close();
  saved.close();
  EXPECT_EQ(rate_of(saved, 1), rate_of(plain, 1));
}

}  // namespace
}  // namespace longhaul::overlay::forest
