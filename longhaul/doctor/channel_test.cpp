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
  Plan plan;
  plan.pings = 77;
  ASSERT_TRUE(from.send(Kind::upload, plan, soon()));
  const auto got = to.receive<Plan>(Kind::upload, soon());
  ASSERT_TRUE(got);
  EXPECT_EQ(got->pings, 77u);
}

// mutant: longhaul/doctor/channel.cpp
//   - if (head.size > kLongestMessage)
//   + if (head.size > 100 * kLongestMessage)
// mutant: longhaul/doctor/channel.cpp
//   - if (kind < std::uint16_t(Kind::hello) || kind > std::uint16_t(Kind::last))
//   + if (kind > std::uint16_t(Kind::last))
// mutant: longhaul/doctor/channel.cpp
//   - if (version != kVersion)
//   + if (version < kVersion)
// mutant: longhaul/doctor/channel.cpp
//   - if (magic != kMagic)
//   + if (magic == 0)
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

// mutant: longhaul/doctor/channel.cpp
//   - reason ? printable(reason->text) : "without a readable reason"));
//   + reason ? reason->text : "without a readable reason"));
TEST(Channel, ARefusalIsAnErrorWithThePeersReasonMadePrintable) {
  auto [a, b] = connected();
  const Channel from(std::move(a), "a"), to(std::move(b), "oslo");
  ASSERT_TRUE(from.send(Kind::refusal, Text{"no\x1b[31m"}, soon()));
  const auto got = to.receive<Facts>(Kind::facts, soon());
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().what, "oslo refuses: no?[31m");
}

// mutant: longhaul/doctor/channel.cpp
//   - fmt::format("{}: waiting for {}: {}", peer_, name_of(kind), any.error().what)};
//   + any.error().what};
TEST(Channel, AWaitEndsAndNamesWhatAndWhom) {
  auto [a, b] = connected();
  const Channel to(std::move(b), "oslo");
  const auto got =
      to.receive<Facts>(Kind::facts, Limit::within(std::chrono::milliseconds(20), nullptr));
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().what, "oslo: waiting for facts: nothing came in time");
  a = Socket();
  const auto closed = to.receive<Facts>(Kind::facts, soon());
  ASSERT_FALSE(closed);
  EXPECT_THAT(closed.error().what, HasSubstr("closed"));
}

// mutant: longhaul/doctor/socket.cpp
//   - if (limit.stopped()) return unavailable("stopped");
//   +
TEST(Channel, AWaitEndsWhenSomebodyWantsItTo) {
  auto [a, b] = connected();
  const Channel to(std::move(b), "oslo");
  const auto got =
      to.receive<Facts>(Kind::facts, Limit::within(std::chrono::seconds(3), [] { return true; }));
  ASSERT_FALSE(got);
  EXPECT_THAT(got.error().what, HasSubstr("stopped"));
}

// mutant: longhaul/doctor/messages.h
//   - visit(Field{.name = "seconds", .min = 0.1, .max = 60}, self.seconds);
//   + visit(Field{.name = "seconds"}, self.seconds);
TEST(Channel, NobodyIsMadeToSendForHours) {
  Plan plan;
  plan.seconds = 61;
  EXPECT_FALSE(from_wire<Plan>(to_wire(plan)));
}

}  // namespace
}  // namespace longhaul::doctor
