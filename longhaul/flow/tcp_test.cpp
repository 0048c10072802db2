#include "longhaul/flow/tcp.h"

#include <gtest/gtest.h>

#include <cmath>

#include "longhaul/flow/fair_share.h"

namespace longhaul::flow {
namespace {

constexpr Tcp kCubic{.control = Tcp::Control::cubic};

// mutant: longhaul/flow/tcp.cpp
//   - return loss > (tcp.control == Tcp::Control::bbr ? tcp.bbr_threshold : 0);
//   + return loss > 0;
TEST(Tcp, BbrDoesNotMindLossBelowItsThreshold) {
  Tcp bbr;
  EXPECT_FALSE(minds_loss(bbr, 0.2));
  EXPECT_TRUE(minds_loss(bbr, 0.21));
  bbr.bbr_threshold = 0.02;
  EXPECT_TRUE(minds_loss(bbr, 0.03));
  EXPECT_TRUE(minds_loss(kCubic, 1e-6));
  EXPECT_FALSE(minds_loss(kCubic, 0));
}

// Two packets of 1500 bytes are acknowledged by one of 52.
//
// mutant: longhaul/flow/tcp.cpp
//   - double ack_share(const Tcp& tcp) { return tcp.mtu > 0 ? 0.5 * kTcpHeaders / tcp.mtu : 0; }
//   + double ack_share(const Tcp& tcp) { return tcp.mtu > 0 ? 1.0 * kTcpHeaders / tcp.mtu : 0; }
TEST(Tcp, EverySecondPacketIsAcknowledged) {
  EXPECT_DOUBLE_EQ(ack_share({}), 52.0 / 3000);
  EXPECT_EQ(ack_share({.mtu = 0}), 0);
}

// mutant: longhaul/flow/tcp.cpp
//   - return Rest{.for_s = rtt_s + std::max(0.2, rtt_s), .rate = 4 * tcp.packet() / rtt_s};
//   + return Rest{.for_s = rtt_s + 0.2, .rate = 4 * tcp.packet() / rtt_s};
TEST(Tcp, BbrRestsForTwoRoundTripsAtLeast) {
  EXPECT_DOUBLE_EQ(rest({}, 0.05)->for_s, 0.25);
  EXPECT_DOUBLE_EQ(rest({}, 0.3)->for_s, 0.6);
  EXPECT_DOUBLE_EQ(rest({}, 0.05)->rate, 6000 / 0.05);
  EXPECT_FALSE(rest(kCubic, 0.05));
  EXPECT_FALSE(rest({.first_window = 0}, 0.05));
  EXPECT_FALSE(rest({}, 0));
}

// mutant: longhaul/flow/tcp.cpp
//   - return tcp.first_window * tcp.packet() / rtt_s;
//   + return tcp.first_window * tcp.packet();
TEST(Tcp, SlowStartBeginsWithTenPacketsARoundTrip) {
  EXPECT_DOUBLE_EQ(slow_start_rate({}, 0.04), 15000 / 0.04);
  EXPECT_EQ(slow_start_rate({.first_window = 0}, 0.04), kUnlimited);
  EXPECT_EQ(slow_start_rate({}, 0), kUnlimited);
}

// mutant: longhaul/flow/tcp.cpp
//   - return std::max(double(bytes) + kTcpHeaders, double(bytes) * full);
//   + return double(bytes) * full;
// mutant: longhaul/flow/tcp.cpp
//   - const std::uint64_t count = std::max<std::uint64_t>(1, (bytes + each - 1) / each);
//   + const std::uint64_t count = std::max<std::uint64_t>(1, bytes / each);
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
