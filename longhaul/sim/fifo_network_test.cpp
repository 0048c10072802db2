#include "longhaul/sim/fifo_network.h"

#include <gtest/gtest.h>

#include "longhaul/sim/testing/networks.h"

// What holds for every model of links is in network_test.cpp.
namespace longhaul::sim {
namespace {

using namespace std::chrono_literals;
using testing::drain;
using testing::equal;
using testing::Observed;
using testing::packet;
using Kind = NetworkEvent::Kind;

TEST(FifoNetwork, ASlowStageUpstreamDoesNotHoldAFasterOne) {
  FifoConfig config = equal(3);
  config.sites[0].up = 1e5;  // 10 s for a megabyte
  FifoNetwork net(config);
  net.submit(packet(0, 2, 1'000'000, 1), 0s);
  net.submit(packet(1, 2, 1'000'000, 2), 0s);
  const std::vector<Observed> seen = drain(net);
  ASSERT_EQ(seen.size(), 2u);
  // The downlink works for 1 s at each: the first one's stream goes on until 10 s, the second one
  // does not wait for that.
  EXPECT_EQ(seen[0], (Observed{Kind::delivered, 1, 2, 2.05, 2}));
  EXPECT_EQ(seen[1], (Observed{Kind::delivered, 0, 2, 10.05, 1}));
}

TEST(FifoNetwork, TheDownlinkServesInOrderOfArrivalNotOfSubmission) {
  FifoConfig config = equal(3);
  config.links[{0, 2}].delay = 500ms;
  config.links[{1, 2}].delay = 20ms;
  FifoNetwork net(config);
  net.submit(packet(0, 2, 1'000'000, 1), 0s);
  net.submit(packet(1, 2, 1'000'000, 2), 100ms);
  const std::vector<Observed> seen = drain(net);
  ASSERT_EQ(seen.size(), 2u);
  EXPECT_EQ(seen[0], (Observed{Kind::delivered, 1, 2, 1.12, 2}));
  EXPECT_EQ(seen[1], (Observed{Kind::delivered, 0, 2, 2.12, 1}));
}

TEST(FifoNetwork, ARunOfChunksDepartsAndArrivesWithItsLastAndWhatFollowsItWaits) {
  FifoNetwork net(equal(3));
  Packet run = packet(0, 1, 1'000'000, 1);
  run.chunks = 10;
  net.submit(run, 0s);
  net.submit(packet(0, 1, 100'000, 2), 0s);  // behind the run
  net.submit(packet(0, 2, 100'000, 3), 0s);  // behind the two chunks under way
  const std::vector<Observed> seen = drain(net, Time::max(), true);
  ASSERT_EQ(seen.size(), 6u);
  EXPECT_EQ(seen[0], (Observed{Kind::departed, 0, 2, 0.3, 0}));
  EXPECT_EQ(seen[1], (Observed{Kind::delivered, 0, 2, 0.35, 3}));
  EXPECT_EQ(seen[2], (Observed{Kind::departed, 0, 1, 1.1, 0}));
  EXPECT_EQ(seen[3], (Observed{Kind::delivered, 0, 1, 1.15, 1}));
  EXPECT_EQ(seen[4], (Observed{Kind::departed, 0, 1, 1.2, 0}));
  EXPECT_EQ(seen[5], (Observed{Kind::delivered, 0, 1, 1.25, 2}));
}

TEST(FifoNetwork, NodesOfASiteUseTheirPortsOnTheLan) {
  FifoConfig config = equal(2);
  config.site_of = {0, 0, 0, 1};
  FifoNetwork net(config);
  net.submit(packet(0, 1, 1'000'000), 0s);  // two senders, one receiving port of 10 MB/s
  net.submit(packet(2, 1, 1'000'000), 0s);
  net.submit(packet(0, 3, 1'000'000), 0s);  // the uplink is another server
  const std::vector<Observed> seen = drain(net);
  EXPECT_DOUBLE_EQ(seen.at(0).at, 0.101);
  EXPECT_DOUBLE_EQ(seen.at(1).at, 0.201);
  EXPECT_DOUBLE_EQ(seen.at(2).at, 1.05);
}

}  // namespace
}  // namespace longhaul::sim
