#include "longhaul/doctor/channel.h"

#include <gmock/gmock.h>

#include <thread>

#include "longhaul/doctor/testing/sites.h"

namespace longhaul::doctor {
namespace {

using testing::connected;
using ::testing::HasSubstr;
using testing::soon;

TEST(Channel, AMessageComesAsItWasSent) {
  auto [a, b] = connected();
  const Channel from(std::move(a), "a"), to(std::move(b), "b");
  MeasurementPlan plan;
  plan.pings = 77;
  ASSERT_TRUE(from.send(Kind::upload, plan, soon()));
  const auto got = to.receive<MeasurementPlan>(Kind::upload, soon());
  ASSERT_TRUE(got);
  EXPECT_EQ(got->pings, 77u);
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
  auto [a, b] = connected();
  const Channel from(std::move(a), "a"), to(std::move(b), "oslo");
  ASSERT_TRUE(from.send(Kind::refusal, Text{"no\x1b[31m"}, soon()));
  const auto got = to.receive<MachineFacts>(Kind::facts, soon());
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().what, "oslo refuses: no?[31m");
}

TEST(Channel, AWaitEndsAndNamesWhatAndWhom) {
  auto [a, b] = connected();
  const Channel to(std::move(b), "oslo");
  const auto got = to.receive<MachineFacts>(
      Kind::facts, Deadline::within(std::chrono::milliseconds(20), nullptr));
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().what, "oslo: waiting for facts: nothing came in time");
  a = Socket();
  const auto closed = to.receive<MachineFacts>(Kind::facts, soon());
  ASSERT_FALSE(closed);
  EXPECT_THAT(closed.error().what, HasSubstr("closed"));
}

TEST(Channel, AWaitEndsWhenSomebodyWantsItTo) {
  auto [a, b] = connected();
  const Channel to(std::move(b), "oslo");
  const auto got = to.receive<MachineFacts>(
      Kind::facts, Deadline::within(std::chrono::seconds(3), [] { return true; }));
  ASSERT_FALSE(got);
  EXPECT_THAT(got.error().what, HasSubstr("stopped"));
}

TEST(Channel, NobodyIsMadeToSendForHours) {
  MeasurementPlan plan;
  plan.seconds = 61;
  EXPECT_FALSE(from_wire<MeasurementPlan>(to_wire(plan)));
}

}  // namespace
}  // namespace longhaul::doctor
