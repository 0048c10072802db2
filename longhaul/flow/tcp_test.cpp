#include "longhaul/flow/tcp.h"

#include <gtest/gtest.h>

#include "longhaul/flow/fair_share.h"

namespace longhaul::flow {
namespace {

constexpr Tcp kCubic{.control = Tcp::Control::cubic};

TEST(Tcp, BbrDoesNotMindLossBelowItsThreshold) {
  Tcp bbr;
  EXPECT_FALSE(slows_on_loss(bbr, 0.2));
  EXPECT_TRUE(slows_on_loss(bbr, 0.21));
  bbr.bbr_threshold = 0.02;
  EXPECT_TRUE(slows_on_loss(bbr, 0.03));
  EXPECT_TRUE(slows_on_loss(kCubic, 1e-6));
  EXPECT_FALSE(slows_on_loss(kCubic, 0));
}

// Two packets of 1500 bytes are acknowledged by one of 52.
TEST(Tcp, EverySecondPacketIsAcknowledged) {
  EXPECT_DOUBLE_EQ(ack_share({}), 52.0 / 3000);
  EXPECT_EQ(ack_share({.mtu = 0}), 0);
}

TEST(Tcp, BbrRestsForTwoRoundTripsAtLeast) {
  EXPECT_DOUBLE_EQ(probe_rtt({}, 0.05)->for_s, 0.25);
  EXPECT_DOUBLE_EQ(probe_rtt({}, 0.3)->for_s, 0.6);
  EXPECT_DOUBLE_EQ(probe_rtt({}, 0.05)->rate, 6000 / 0.05);
  EXPECT_FALSE(probe_rtt(kCubic, 0.05));
  EXPECT_FALSE(probe_rtt({.first_window = 0}, 0.05));
  EXPECT_FALSE(probe_rtt({}, 0));
}

TEST(Tcp, SlowStartBeginsWithTenPacketsARoundTrip) {
  EXPECT_DOUBLE_EQ(slow_start_rate({}, 0.04), 15000 / 0.04);
  EXPECT_EQ(slow_start_rate({.first_window = 0}, 0.04), kUnlimited);
  EXPECT_EQ(slow_start_rate({}, 0), kUnlimited);
}

TEST(Tcp, EveryPacketHasItsHeaders) {
  EXPECT_DOUBLE_EQ(stream_bytes({}, 1'448'000), 1'500'000);
  EXPECT_EQ(stream_bytes({}, 100), 152);
  EXPECT_EQ(datagram_bytes({}, 1472), 1500);
  EXPECT_EQ(datagram_bytes({}, 1473), 1473 + 56);
  EXPECT_EQ(datagram_bytes({}, 0), 28);
  for (auto* bytes : {stream_bytes, datagram_bytes}) EXPECT_EQ(bytes({.mtu = 0}, 1448), 1448);
  EXPECT_EQ(packets({}, stream_bytes({}, 1'448'000)), 1000u);
  EXPECT_EQ(packets({}, 1501), 2u);
  EXPECT_EQ(packets({.mtu = 0}, 0), 1u);
}

}  // namespace
}  // namespace longhaul::flow
