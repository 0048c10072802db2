#include "longhaul/doctor/bulk.h"

#include <gmock/gmock.h>

#include <thread>

#include "longhaul/doctor/testing/sites.h"

namespace longhaul::doctor {
namespace {

using testing::connected;
using ::testing::HasSubstr;
using testing::soon;

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

TEST(Bulk, EndsWithItsTimeOrItsBytes) {
  for (const auto& [mbytes, s] : {std::pair(3.0, 30.0), std::pair(100e3, 0.1)}) {
    auto [a, b] = connected();
    const Channel from(std::move(a), "a"), to(std::move(b), "b");
    MeasurementPlan plan;
    plan.mbytes = mbytes;
    plan.seconds = s;
    Status sent = Ok{};
    std::thread sender([&, &channel = from] { sent = send_bulk(channel, plan, soon()); });
    const auto begin = Clock::now();
    const auto bulk = receive_bulk(to, soon());
    const double took = seconds(Clock::now() - begin);
    sender.join();
    ASSERT_TRUE(bulk);
    EXPECT_TRUE(sent);
    if (s > 1) {
      EXPECT_NEAR(bulk->received.bytes, mbytes * 1e6, 70e3);
    }
    EXPECT_LT(took, 10);
    EXPECT_LT(bulk->received.bytes, 50e9);
  }
}

TEST(Bulk, EndsAlthoughMoreIsThere) {
  auto [a, b] = connected();
  const Channel from(std::move(a), "a"), to(std::move(b), "b");
  ASSERT_TRUE(from.send(Kind::bulk, Empty{}, soon()));
  ASSERT_TRUE(from.send(Kind::bulk_end, PathInfo{}, soon()));
  const auto bulk = receive_bulk(to, Deadline::within(Time(0), nullptr));
  EXPECT_THAT(bulk ? "" : bulk.error().what, HasSubstr("does not end"));
}

TEST(Bulk, WhatIsNoBulkEndsIt) {
  auto [a, b] = connected();
  const Channel from(std::move(a), "a"), to(std::move(b), "b");
  ASSERT_TRUE(from.send(Kind::count, PathInfo{}, soon()));
  const auto bulk = receive_bulk(to, soon());
  ASSERT_FALSE(bulk);
  EXPECT_THAT(bulk.error().what, HasSubstr("something else"));
}

}  // namespace
}  // namespace longhaul::doctor
