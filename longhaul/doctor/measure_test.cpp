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

}  // namespace
}  // namespace longhaul::doctor
