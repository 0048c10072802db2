#include <gtest/gtest.h>

#include "longhaul/sim/testing/networks.h"

namespace longhaul::sim {
namespace {

using namespace std::chrono_literals;
using testing::drain;
using testing::equal;
using testing::last;
using testing::Observed;
using testing::packet;
using testing::shared;

constexpr std::uint8_t kCopied = 3;

Packet copy_to(Rank from, Rank to, std::uint64_t bytes) {
  Packet one = packet(from, to, bytes, std::uint16_t(to));
  one.service.priority = kCopied;
  return one;
}

FairConfig copying(std::uint32_t n) {
  FairConfig config = shared(equal(n));
  config.multicast_priority = kCopied;
  return config;
}

// One copy passes the uplink of 1 MB/s, whatever the number of receivers.
TEST(FairMulticast, ThreeReceiversTakeTheTimeOfOne) {
  FairNetwork net(copying(4));
  for (Rank to = 1; to < 4; ++to) net.submit(copy_to(0, to, 1'000'000), 0s);
  EXPECT_NEAR(last(net), 1.05, 1e-8);
  FairNetwork copies(shared(equal(4)));
  for (Rank to = 1; to < 4; ++to) copies.submit(copy_to(0, to, 1'000'000), 0s);
  EXPECT_NEAR(last(copies), 3.05, 1e-8);
}

// One rate for all: the slowest downlink holds up the others.
TEST(FairMulticast, TheSlowestReceiverSetsTheRate) {
  FairConfig config = copying(3);
  config.wan.sites[2].down = 0.25e6;
  FairNetwork net(config);
  net.submit(copy_to(0, 1, 1'000'000), 0s);
  net.submit(copy_to(0, 2, 1'000'000), 0s);
  drain(net, 100ms);
  EXPECT_DOUBLE_EQ(net.rate(0, 1, {.priority = kCopied}), 0.25e6);
  EXPECT_NEAR(last(net), 4.05, 1e-8);
}

// Who has all leaves it; what is left goes at the rate of the others. Half of the first receiver's
// port is another sender's.
TEST(FairMulticast, ReceiversComeAndGo) {
  FairNetwork net(copying(4));
  net.submit(copy_to(0, 1, 500'000), 0s);
  net.submit(copy_to(0, 2, 1'000'000), 0s);
  net.submit(copy_to(3, 1, 1'000'000), 0s);
  const std::vector<Observed> seen = drain(net);
  ASSERT_EQ(seen.size(), 3u);
  EXPECT_EQ(seen[0].to, 1u);
  EXPECT_NEAR(seen[0].at, 1.05, 1e-8);  // half a megabyte at half a port
  EXPECT_NEAR(seen[1].at, 1.55, 1e-8);  // both others have a whole port from then on
  EXPECT_NEAR(seen[2].at, 1.55, 1e-8);
}

TEST(FairMulticast, IsTheSameAfterSavingAndLoading) {
  for (auto at = 0ms; at <= 2000ms; at += 50ms) {
    FairNetwork whole(copying(4)), parts(copying(4));
    for (FairNetwork* net : {&whole, &parts}) {
      net->submit(copy_to(0, 1, 500'000), 0s);
      net->submit(copy_to(0, 2, 1'000'000), 0s);
      net->submit(copy_to(3, 1, 1'000'000), 0s);
      drain(*net, at);
    }
    FairNetwork loaded(copying(4));
    ASSERT_TRUE(testing::load(loaded, testing::save(parts)));
    EXPECT_EQ(drain(loaded), drain(whole));
  }
}

// A crash takes the sender's flow with it, and leaves that of the other.
TEST(FairMulticast, ACrashOfTheSenderEndsIt) {
  FairNetwork net(copying(4));
  net.submit(copy_to(0, 1, 1'000'000), 0s);
  net.submit(copy_to(3, 1, 1'000'000), 0s);
  drain(net, 500ms);
  net.crash(0, 500ms);
  const std::vector<Observed> seen = drain(net);
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_NEAR(seen[0].at, 1.30, 1e-8);
}

}  // namespace
}  // namespace longhaul::sim
