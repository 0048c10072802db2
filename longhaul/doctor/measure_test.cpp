#include "longhaul/doctor/measure.h"

#include <gtest/gtest.h>

namespace longhaul::doctor {
namespace {

constexpr std::int64_t kMs = 1'000'000;

TEST(Measure, TheMedianOfEvenAndOddNumbers) {
  EXPECT_EQ(median({5, 1, 3}), 3);
  EXPECT_EQ(median({4, 1, 2, 10}), 3);
}

// A clock that is 5 s ahead, 30 ms there, 10 ms back, 7 ms to answer.
constexpr PingTimes kSkewed{0, 5030 * kMs, 5037 * kMs, 47 * kMs};

TEST(Measure, ARoundTripIsWithoutTheTimeToAnswer) {
  EXPECT_NEAR(kSkewed.round_trip(), 0.040, 1e-9);
}

TEST(Measure, TheOffsetIsOffByHalfOfWhatTheWaysDiffer) {
  EXPECT_NEAR(kSkewed.offset(), 5.010, 1e-9);
  const PingTimes even{0, 5020 * kMs, 5027 * kMs, 47 * kMs};
  EXPECT_NEAR(even.offset(), 5, 1e-9);
}

TEST(Measure, TheQuickestExchangeGivesTheOffset) {
  const PingTimes late{0, 90 * kMs, 90 * kMs, 100 * kMs}, quick{0, 10 * kMs, 10 * kMs, 20 * kMs},
      other{0, 20 * kMs, 20 * kMs, 40 * kMs};
  const PingTimes all[] = {late, quick, other};
  const RoundTripStats round_trips = round_trip_stats(all);
  EXPECT_NEAR(round_trips.min, 0.020, 1e-9);
  EXPECT_NEAR(round_trips.median, 0.040, 1e-9);
  EXPECT_NEAR(round_trips.offset, 0, 1e-9);
}

TEST(Measure, TwoLateDatagramsAreNoQueue) {
  EXPECT_EQ(long_round_trip({0.04, 0.9, 0.05, 0.9, 0.04}), 0.05);
  EXPECT_EQ(long_round_trip({0.04, 0.9}), 0);
}

TEST(Measure, AQueueIsSharedWhereDatagramsWaitBehindTheTransfer) {
  using enum QueueSeen::Kind;
  const auto expect = [](const QueueSeen& queue, QueueSeen::Kind kind, double wait_s) {
    EXPECT_EQ(queue.kind, kind);
    EXPECT_NEAR(queue.wait_s, wait_s, 1e-9);
  };
  expect(queue_seen(0.040, 0.085, 0.088), shared, 0.048);
  expect(queue_seen(0.040, 0.085, 0.043), per_flow, 0.045);
  expect(queue_seen(0.040, 0.085, 0.056), unknown, 0);  // between both
  expect(queue_seen(0.040, 0.044, 0.088), unknown, 0);  // the transfer did not wait
  expect(queue_seen(0.040, 0.085, 0), unknown, 0);      // no datagram came
}

TEST(Measure, SlowStartDoesNotCount) {
  std::vector<Sample> samples;
  double bytes = 0;
  for (int i = 0; i <= 400; ++i) {  // 2 s that rise, then 2 s at 1000 bytes/s
    samples.push_back({i * 0.01, bytes});
    bytes += i < 200 ? i * 0.05 : 10;
  }
  EXPECT_NEAR(steady_rate(samples), 1000, 1e-6);
}

TEST(Measure, AMomentOfStandstillDoesNotCount) {
  std::vector<Sample> samples;
  for (int i = 0; i <= 400; ++i)  // 1000 bytes/s; from 2.4 to 2.7 s nothing comes
    samples.push_back({i * 0.01, i > 240 && i < 270 ? 2400 : i * 10.0});
  EXPECT_NEAR(steady_rate(samples), 1000, 1e-6);
}

TEST(Measure, TwoSamplesHaveARateToo) {
  const Sample two[] = {{1, 100}, {3, 500}}, one[] = {{1, 100}}, same[] = {{1, 100}, {1, 200}};
  EXPECT_NEAR(steady_rate(two), 200, 1e-9);
  EXPECT_EQ(steady_rate(one), 0);
  EXPECT_EQ(steady_rate(same), 0);
  EXPECT_EQ(steady_rate({}), 0);
}

TEST(Measure, HeadersAreOfEachPacket) {
  EXPECT_NEAR(ip_rate(1448, 1500), 1500, 1e-9);
  EXPECT_NEAR(ip_rate(1148, 1200), 1200, 1e-9);
  EXPECT_NEAR(ip_rate(1448, 0), 1500, 1e-9);
}

TEST(RateMeter, TheRateIsRightHoweverLongItTakes) {
  for (const int count : {2, 100, 5000, 300'000}) {
    RateMeter meter;
    // A slow first third, then 500 bytes a millisecond.
    double bytes = 0;
    for (int i = 1; i <= count; ++i) meter.add(i * 1e-3, bytes += i <= count / 3 ? 10 : 500);
    const BulkResult got = meter.received();
    EXPECT_EQ(got.bytes, bytes);
    EXPECT_NEAR(got.seconds, (count - 1) * 1e-3, 1e-9);
    EXPECT_NEAR(got.rate, 500e3, 500) << count;
  }
  EXPECT_EQ(RateMeter().received().rate, 0);
}

TEST(RateMeter, KeepsAFewThousandSamples) {
  RateMeter meter;
  for (int i = 0; i < 300'000; ++i) meter.add(i * 1e-2, i);
  EXPECT_LE(meter.kept(), 4096u);
  EXPECT_GE(meter.kept(), 1000u);
}

TEST(DatagramCounter, CountsEachDatagramOnceAndTheMarkedOnes) {
  DatagramCounter counter(3);
  counter.add(0, true);
  counter.add(0, true);  // a duplicate
  counter.add(2, false);
  counter.add(3, true);  // nobody sent that
  counter.add(0xFFFFFFFF, true);
  EXPECT_EQ(counter.counted().came, 2u);
  EXPECT_EQ(counter.counted().marked, 1u);
}

TEST(DatagramCounter, LossIsWhatDidNotCome) {
  DirectionResult way;
  EXPECT_EQ(way.loss(), 0);
  EXPECT_FALSE(way.udp_passes());
  way.sent = 200;
  way.counted.came = 150;
  EXPECT_NEAR(way.loss(), 0.25, 1e-12);
}

}  // namespace
}  // namespace longhaul::doctor
