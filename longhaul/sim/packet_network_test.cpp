// Connections of single packets through queues, against closed forms.
//
// Invariants:
//   P1 a connection fills its link, except for 1 % that BBR leaves, its start and its rests
//   P2 a small message takes the delay and its transmission on each link
//   P3 slow start doubles each round trip
//   P4, P5 shares of a plain queue are uneven and cost drops; fair queues are even
//   P6 control does not wait for bulk
//   P7 all packets arrive, once and in order, under loss, cuts and heals; also AnyOrder.* in
//      network_test.cpp
//   P8 a run is a function of its seed
//   P9 BBR rests after ten seconds
#include "longhaul/sim/packet_network.h"

#include <gtest/gtest.h>

#include <numeric>

#include "longhaul/sim/testing/networks.h"

namespace longhaul::sim {
namespace {

using namespace std::chrono_literals;
using testing::drain;
using testing::last;
using testing::packet;

constexpr double kRate = 8.25e6;            // 66 Mbit/s
constexpr double kPerByte = 1500.0 / 1448;  // IP bytes
constexpr double kBbr = 0.99;               // of the rate is paced

// n sites of one node, with plain queues.
PacketConfig plain(std::uint32_t n, double delay_s = 0.02, double queue_s = 0.0485) {
  PacketConfig config;
  for (std::uint32_t i = 0; i < n; ++i) {
    config.wan.sites.push_back({.name = {}, .up = kRate, .down = kRate, .lan = {}});
    config.site_of.push_back(i);
  }
  config.wan.usual.delay_s = delay_s;
  config.wan.queue = flow::Wan::Queue::drop_tail;
  config.wan.queue_s = queue_s;
  return config;
}

// As a node sends them: two chunks at most wait.
void submit_all(PacketNetwork& net, Rank from, Rank to, std::uint64_t bytes) {
  for (std::uint64_t sent = 0; sent < bytes; sent += 250'000)
    net.submit(packet(from, to, std::min<std::uint64_t>(250'000, bytes - sent)), 0s);
}

// P1
TEST(PacketNetwork, P1_OneConnectionFillsItsLink) {
  PacketNetwork net(plain(2));
  submit_all(net, 0, 1, 50'000'000);
  const double least = 50e6 * kPerByte / kRate;
  const double time = last(net);
  EXPECT_GT(time, least);
  EXPECT_LT(time, 1.05 * least / kBbr);  // its start, and a rest
}

// P2
TEST(PacketNetwork, P2_AMessageOfOnePacketTakesTheDelayAndItsTransmission) {
  PacketNetwork net(plain(2));
  net.submit(packet(0, 1, 1000, 1, false), 0s);
  EXPECT_NEAR(last(net), 0.02 + 2 * 1052 / kRate, 1e-6);
}

// P3
TEST(PacketNetwork, P3_SlowStartDoublesEachRoundTrip) {
  PacketConfig config = plain(2);
  config.wan.sites[0].up = config.wan.sites[1].down = 1e9;
  PacketNetwork net(config);
  net.submit(packet(0, 1, 70 * 1448, 1), 0s);
  // 10 + 20 + 40 packets in three round trips, less the last answer.
  const double time = last(net);
  EXPECT_GT(time, 0.02 + 2 * 0.04);
  EXPECT_LT(time, 0.02 + 3 * 0.04 + 0.01);
}

// P4
TEST(PacketNetwork, P4_ConnectionsShareAPlainQueueUnevenlyAndDropPackets) {
  PacketNetwork net(plain(4));
  for (const Rank from : {1u, 2u, 3u}) submit_all(net, from, 0, 10'000'000);
  std::vector<double> ends(4);
  for (const auto& seen : drain(net)) ends[seen.from] = seen.at;
  const double least = 30e6 * kPerByte / kRate;
  const auto [first, end] = std::minmax({ends[1], ends[2], ends[3]});
  EXPECT_GT(end, least);
  EXPECT_LT(end, 1.4 * least);  // what their starts drop is sent again
  EXPECT_LT(first, 0.97 * end);
  EXPECT_GT(net.figures().dropped, 0u);
  EXPECT_GE(net.figures().retransmitted, net.figures().dropped * 9 / 10);
}

// P5
TEST(PacketNetwork, P5_AFlowEachHasItsShare) {
  PacketConfig config = plain(4);
  config.wan.queue = flow::Wan::Queue::per_flow;
  PacketNetwork net(config);
  for (const Rank from : {1u, 2u, 3u}) submit_all(net, from, 0, 10'000'000);
  std::vector<double> ends(4);
  for (const auto& seen : drain(net)) ends[seen.from] = seen.at;
  const auto [first, end] = std::minmax({ends[1], ends[2], ends[3]});
  EXPECT_GT(first, 0.95 * end);
}

// P6
TEST(PacketNetwork, P6_ControlDoesNotWaitForBulk) {
  PacketNetwork net(plain(2));
  submit_all(net, 0, 1, 20'000'000);
  drain(net, 1s);
  Packet control = packet(0, 1, 100, 7, false);
  control.service = kControl;
  net.submit(std::move(control), 1s);
  double at = 0;
  for (const auto& seen : drain(net))
    if (seen.tag == 7) at = seen.at;
  EXPECT_LT(at, 1.03);
}

// P7
TEST(PacketNetwork, P7_AllArriveWhereManyPacketsAreLost) {
  PacketConfig config = plain(2, 0.02, 0.005);
  config.wan.usual.loss = 0.03;
  PacketNetwork net(config);
  submit_all(net, 0, 1, 5'000'000);
  submit_all(net, 1, 0, 5'000'000);
  std::uint64_t bytes[2] = {};
  for (const auto& seen : drain(net)) bytes[seen.from] += 250'000;
  EXPECT_EQ(bytes[0], 5'000'000u);
  EXPECT_EQ(bytes[1], 5'000'000u);
}

// P8
TEST(PacketNetwork, P8_ARunIsAFunctionOfItsSeed) {
  const auto run = [](std::uint64_t seed) {
    PacketConfig config = plain(3);
    config.seed = seed;
    config.wan.usual.loss = 0.01;
    PacketNetwork net(config);
    for (const Rank from : {1u, 2u}) submit_all(net, from, 0, 3'000'000);
    return last(net);
  };
  EXPECT_EQ(run(1), run(1));
  EXPECT_NE(run(1), run(2));
}

// P9
TEST(PacketNetwork, P9_BbrRestsAfterTenSeconds) {
  PacketNetwork net(plain(2));
  submit_all(net, 0, 1, 120'000'000);
  std::vector<double> gaps;
  double before = 0;
  for (const auto& seen : drain(net)) {
    if (before > 1) gaps.push_back(seen.at - before);
    before = seen.at;
  }
  EXPECT_GT(*std::ranges::max_element(gaps), 0.2);
  EXPECT_EQ(std::ranges::count_if(gaps, [](double gap) { return gap > 0.2; }), 1);
}

TEST(PacketNetwork, SaysThatItCannotBeSaved) {
  PacketNetwork net(plain(2));
  Archive archive;
  net.state(archive);
  EXPECT_TRUE(archive.failed());
}

}  // namespace
}  // namespace longhaul::sim
