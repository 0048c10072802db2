#include "longhaul/flow/bbr.h"

#include <gtest/gtest.h>

namespace longhaul::flow {
namespace {

using namespace std::chrono_literals;

constexpr double kTrip = 0.04, kSegment = 1448;

// A link that carries `rate` packets a second and answers each round trip at once.
struct BbrLink {
  Bbr bbr{kSegment, Random(1, {})};
  Counts counts;
  Nanoseconds now{0};
  double rate = 5000;

  BbrLink() { bbr.begin(kTrip, now); }

  // A round trip in which the window, or what the link carries, is delivered.
  void round(std::uint32_t losses = 0, double rtt_s = kTrip) {
    now += Nanoseconds(std::int64_t(rtt_s * 1e9));
    const double sent = std::min({bbr.window(), rate * rtt_s, bbr.pacing() * rtt_s});
    RateSample sample;
    sample.now = now;
    sample.prior_delivered = counts.delivered;
    sample.prior_in_flight = std::uint64_t(std::min(bbr.window(), 2 * rate * rtt_s));
    sample.delivered = std::uint64_t(sent);
    sample.interval_s = rtt_s;
    sample.acked = std::uint32_t(sent);
    sample.losses = losses;
    sample.rtt_s = rtt_s;
    counts.delivered += sample.delivered;
    counts.lost += losses;
    counts.in_flight = bbr.window() <= 4 ? 4 : std::uint64_t(rate * kTrip);
    (void)bbr.on_ack(sample, counts);
  }
  void rounds(int n) {
    for (; n > 0; --n) round();
  }
};

TEST(Bbr, BeginsWithTenPacketsAndDoublesThem) {
  BbrLink link;
  link.rate = 1e6;
  EXPECT_EQ(link.bbr.window(), 10);
  EXPECT_NEAR(link.bbr.pacing(), 2.886 * 10 / kTrip * 0.99, 1);
  for (const double window : {20, 40, 80}) {
    link.round();
    EXPECT_EQ(link.bbr.window(), window);
  }
  EXPECT_TRUE(link.bbr.in_startup());
}

TEST(Bbr, FindsTheRateOfTheLinkAndHasTwiceItsProductInFlight) {
  BbrLink link;
  link.rounds(30);
  EXPECT_FALSE(link.bbr.in_startup());
  const double product = link.rate * kTrip;
  EXPECT_GE(link.bbr.window(), 2 * product);
  // Its answers come together, once a round trip: what they hold back is added.
  EXPECT_LE(link.bbr.window(), 3 * product + 3 * link.bbr.burst() + 12);
}

// Of eight round trips one at 1.25, one at 0.75 and six at the rate, less a percent.
TEST(Bbr, ProbesForMoreOnceInEightRoundTrips) {
  BbrLink link;
  link.rounds(30);
  int up = 0, down = 0, even = 0;
  for (int i = 0; i < 80; ++i) {
    link.round(0, kTrip + 1e-6);
    const double gain = link.bbr.pacing() / link.rate / 0.99;
    up += gain > 1.2, down += gain<0.8, even += gain> 0.95 && gain < 1.05;
  }
  EXPECT_NEAR(up, 10, 2);
  EXPECT_NEAR(down, 10, 2);
  EXPECT_NEAR(even, 60, 4);
}

TEST(Bbr, RestsWithFourPacketsAfterTenSecondsWithoutAShorterRoundTrip) {
  BbrLink link;
  link.rounds(30);
  int resting = 0;
  for (int i = 0; i < 300; ++i) {
    link.round(0, kTrip + 1e-5);
    resting += link.bbr.window() <= 4;
  }
  EXPECT_GE(resting, 5);  // 200 ms
  EXPECT_LE(resting, 8);
}

TEST(Bbr, APingInAPausePutsTheRestOff) {
  BbrLink link;
  link.rounds(30);
  for (int i = 0; i < 230; ++i) link.round(0, kTrip + 1e-5);
  link.bbr.on_ping(kTrip - 1e-6, link.now);
  for (int i = 0; i < 60; ++i) {
    link.round(0, kTrip + 1e-5);
    EXPECT_GT(link.bbr.window(), 4);
  }
}

TEST(Bbr, RemembersTheLargestRateForTenRoundTrips) {
  BbrLink link;
  link.rounds(30);
  link.rate /= 2;
  link.rounds(5);
  EXPECT_GT(link.bbr.window(), 2 * 5000 * kTrip - 1);
  link.rounds(20);
  EXPECT_LT(link.bbr.window(), 2 * 5000 * kTrip - 1);
}

TEST(Bbr, SendsAsMuchAsArrivesInTheFirstRoundTripOfARecovery) {
  BbrLink link;
  link.rounds(30);
  const double before = link.bbr.window();
  link.counts.recovering = true;
  link.round(/*losses=*/20);
  EXPECT_LT(link.bbr.window(), before);
  link.counts.recovering = false;
  link.round();
  EXPECT_GE(link.bbr.window(), before);
}

}  // namespace
}  // namespace longhaul::flow
