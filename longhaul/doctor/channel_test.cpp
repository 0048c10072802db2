#include <thread>

#include <gmock/gmock.h>

#include "longhaul/base/testing/result.h"
#include "longhaul/doctor/probe.h"
#include "longhaul/doctor/testing/sites.h"

namespace longhaul::doctor {
namespace {

using namespace std::chrono_literals;
using testing::connected;
using ::testing::HasSubstr;
using testing::soon;

TEST(Channel, AMessageComesAsItWasSent) {
  auto [from, to] = connected();
  MeasurementPlan plan;
  plan.pings = 77;
  ASSERT_TRUE(from.send(Kind::upload, plan, soon()));
  EXPECT_EQ(good(to.receive<MeasurementPlan>(Kind::upload, soon()))->pings, 77u);
}

TEST(Channel, WhatAStrangerSaysIsRefusedBeforeAnythingIsKept) {
  const auto good = encode({Kind::ping, 8});
  ASSERT_TRUE(decode(good));
  const auto said = [&](std::size_t at, int value) {
    auto bytes = good;
    bytes[at] = std::byte(value);
    const auto head = decode(bytes);
    return head ? std::string() : head.error().what;
  };
  EXPECT_THAT(said(0, 'G'), HasSubstr("another program has this port"));
  EXPECT_THAT(said(4, 9), HasSubstr("version 9"));
  EXPECT_THAT(said(6, 0), HasSubstr("unknown kind 0"));
  EXPECT_THAT(said(6, 99), HasSubstr("unknown kind 99"));
  EXPECT_THAT(said(10, 16), HasSubstr("at most 65536"));
}

TEST(Channel, ARefusalIsAnErrorWithThePeersReasonMadePrintable) {
  auto [from, to] = connected();
  ASSERT_TRUE(from.send(Kind::refusal, Text{"no\x1b[31m"}, soon()));
  EXPECT_EQ(failure(to.receive<MachineFacts>(Kind::facts, soon())).what, "oslo refuses: no?[31m");
}

TEST(Channel, AWaitEndsAndNamesWhatAndWhom) {
  const auto waited = [](Time time, Stop stop, bool leaves) {
    auto [from, to] = connected();
    if (leaves) Channel(std::move(from)).finish();
    const auto got = to.receive<MachineFacts>(Kind::facts, Deadline::within(time, stop));
    return got ? "" : got.error().what;
  };
  EXPECT_EQ(waited(20ms, nullptr, false), "oslo: waiting for facts: nothing came in time");
  EXPECT_THAT(waited(20s, nullptr, true), HasSubstr("closed"));
  EXPECT_THAT(waited(
                  3s, [] { return true; }, false),
              HasSubstr("stopped"));
}

TEST(Channel, NobodyIsMadeToSendForHours) {
  MeasurementPlan plan;
  plan.seconds = 61;
  EXPECT_FALSE(from_wire<MeasurementPlan>(to_wire(plan)));
}

TEST(Bulk, EndsWithItsTimeOrItsBytes) {
  for (const auto& [mbytes, s] : {std::pair(3.0, 30.0), std::pair(100e3, 0.1)}) {
    auto [from, to] = connected();
    MeasurementPlan plan{.seconds = s, .mbytes = mbytes};
    bool sent = false;
    std::thread sender([&, &channel = from] { sent = bool(send_bulk(channel, plan, soon())); });
    const auto begin = Clock::now();
    const auto bulk = receive_bulk(to, soon());
    const double took = seconds(Clock::now() - begin);
    sender.join();
    ASSERT_TRUE(bulk);
    EXPECT_TRUE(sent);
    if (s > 1) EXPECT_NEAR(bulk->received.bytes, mbytes * 1e6, 70e3);
    EXPECT_LT(took, 10);
    EXPECT_LT(bulk->received.bytes, 50e9);
  }
}

TEST(Bulk, EndsAlthoughMoreIsThere) {
  auto [from, to] = connected();
  ASSERT_TRUE(from.send(Kind::bulk, Empty{}, soon()));
  ASSERT_TRUE(from.send(Kind::bulk_end, PathInfo{}, soon()));
  const auto bulk = receive_bulk(to, Deadline::within(Time(0), nullptr));
  EXPECT_THAT(bulk ? "" : bulk.error().what, HasSubstr("does not end"));
}

TEST(Bulk, WhatIsNoBulkEndsIt) {
  auto [from, to] = connected();
  ASSERT_TRUE(from.send(Kind::count, PathInfo{}, soon()));
  EXPECT_THAT(failure(receive_bulk(to, soon())).what, HasSubstr("something else"));
}

}  // namespace
}  // namespace longhaul::doctor
