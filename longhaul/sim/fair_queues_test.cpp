#include <gtest/gtest.h>

#include "longhaul/sim/testing/networks.h"

#include "longhaul/base/testing/effort.h"

namespace longhaul::sim {
namespace {

using namespace std::chrono_literals;
using testing::drain;
using testing::equal;
using testing::last;
using testing::Observed;
using testing::packet;

using testing::shared;

// Sites of 1 MB/s, 50 ms one way, slow start and bbr, without headers.
FairConfig plain(std::uint32_t sites, double queue_s, bool bbr = true) {
  FairConfig config = shared(equal(sites));
  config.tcp.first_window = 10;
  config.tcp.control = bbr ? flow::Tcp::Control::bbr : flow::Tcp::Control::cubic;
  config.wan.queue = flow::Wan::Queue::drop_tail;
  config.wan.queue_s = queue_s;
  return config;
}

FairConfig per_flow(FairConfig config) {
  config.wan.queue = flow::Wan::Queue::per_flow;
  return config;
}

Packet of_class(Packet p, std::uint8_t priority) {
  p.service.priority = priority;
  return p;
}

// Two that fill the downlink of site 2 for seconds; a small one of the same class, or of another,
// comes in the midst.
double small_packet_takes(const FairConfig& config, std::uint8_t priority,
                          std::chrono::seconds at = 3s) {
  FairNetwork net(config);
  net.submit(packet(0, 2, 12'000'000), 0s);
  net.submit(packet(1, 2, 12'000'000), 0s);
  drain(net, at);
  net.submit(of_class(packet(3, 2, 100, 9, false), priority), at);
  for (const Observed& seen : drain(net))
    if (seen.tag == 9) return seen.at - double(at.count());
  return -1;
}

TEST(DropTail, APacketWaitsBehindAFullPortOfItsClassAndNotInAHigherOne) {
  const double idle = 0.05 + 100 / 1e6;
  EXPECT_NEAR(small_packet_takes(plain(4, 0.08), 4), idle + 0.08, 1e-6);  // the queue
  EXPECT_NEAR(small_packet_takes(plain(4, 9), 4), idle + 0.1, 1e-6);      // what bbr fills of it
  EXPECT_NEAR(small_packet_takes(plain(4, 9), 7), idle, 1e-6);
  EXPECT_NEAR(small_packet_takes(plain(4, 9), 3), idle, 1e-6);  // of bulk above it none waits there
  EXPECT_NEAR(small_packet_takes(per_flow(plain(4, 9)), 4), idle, 1e-6);
}

TEST(DropTail, CubicFillsALongQueueAsItsWindowsGrow) {
  const auto wait = [](std::chrono::seconds at) {
    return small_packet_takes(plain(4, 1, false), 4, at) - 0.0501;
  };
  EXPECT_NEAR(wait(3s), 2 * 0.4 * 27 * 1500 / 1e6, 1e-5);
  EXPECT_NEAR(wait(15s), 0.925 * 1.1 - 0.1, 1e-6);
}

// A pause of a timeout has halved the windows: they grow anew.
TEST(DropTail, CubicHasToFillItsQueueAnewAfterAPause) {
  FairNetwork net(plain(4, 1, false));
  const auto both = [&](Time at) {
    for (const Rank from : {0u, 1u}) net.submit(packet(from, 2, 9'000'000), at);
  };
  both(0s);
  const double first = last(net);
  EXPECT_GT(first, 18);
  both(25s);
  drain(net, 28s);
  net.submit(packet(3, 2, 100, 9, false), 28s);
  for (const Observed& seen : drain(net))
    if (seen.tag == 9) EXPECT_NEAR(seen.at - 28.0501, 2 * 0.4 * 27 * 1500 / 1e6, 1e-5);
}

// One connection of bbr fills no queue, so nothing differs.
TEST(DropTail, OneConnectionTakesAsLongAsByItself) {
  FairNetwork alone(per_flow(plain(2, 1))), queued(plain(2, 1));
  alone.submit(packet(0, 1, 3'000'000), 0s);
  queued.submit(packet(0, 1, 3'000'000), 0s);
  EXPECT_DOUBLE_EQ(last(alone), last(queued));
}

// Two fill the uplink of site 2. What comes to site 2 from site 1 has its acknowledgements behind
// them; while another holds it down it gets half, and then cannot grow until they no longer wait.
double behind_acknowledgements(const FairConfig& config) {
  FairNetwork net(config);
  net.submit(packet(2, 0, 6'000'000), 0s);
  net.submit(packet(2, 3, 6'000'000), 0s);
  net.submit(packet(0, 2, 1'500'000), 0s);
  net.submit(packet(1, 2, 4'000'000, 9), 0s);
  for (const Observed& seen : drain(net))
    if (seen.tag == 9) return seen.at;
  return -1;
}

TEST(DropTail, AcknowledgementsThatWaitBehindDataHoldAConnectionDown) {
  const double free = behind_acknowledgements(per_flow(plain(4, 1)));
  const double queued = behind_acknowledgements(plain(4, 1));
  EXPECT_LT(free, 6.5);          // it takes what the other one leaves at once
  EXPECT_GT(queued, free + 1);   // it stays at a half for seconds
  EXPECT_LT(queued, 2 * 4 + 2);  // and is never below it
}

// The same run, saved and loaded before every event, sees the same.
TEST(DropTail, GoesOnFromAnyEvent) {
  FairConfig config = plain(4, 0.08);
  config.wan.usual.loss = 0.02;
  config.wan.usual.loss_burst = 4;
  const auto begin = [&](FairNetwork& net) {
    for (Rank to : {1u, 2u, 3u}) net.submit(packet(0, to, 900'000, std::uint16_t(to)), 0s);
    for (Rank from : {1u, 2u, 3u})
      net.submit(packet(from, 0, 900'000, std::uint16_t(from + 9)), 0s);
    Packet datagram = packet(0, 1, 50'000, 30);
    datagram.service.delivery = Service::Delivery::best_effort;
    for (int i = 0; i < 20; ++i) net.submit(datagram, 0s);
  };
  FairNetwork whole(config);
  begin(whole);
  std::vector<Observed> seen;
  auto net = std::make_unique<FairNetwork>(config);
  begin(*net);
  while (net->next_event()) {
    for (const Observed& one : drain(*net, *net->next_event())) seen.push_back(one);
    const Buffer saved = testing::save(*net);
    net = std::make_unique<FairNetwork>(config);
    ASSERT_TRUE(testing::load(*net, saved));
  }
  EXPECT_EQ(seen, drain(whole));
}

// --- Bursts of loss ----------------------------------------------------------------------------

struct Bursts {
  double share = 0, mean = 0;
};

Bursts bursts(double loss, double burst) {
  FairConfig config = shared(equal(2));
  config.wan.usual.loss = loss;
  config.wan.usual.loss_burst = burst;
  FairNetwork net(config);
  constexpr int kCount = longhaul::testing::kGate ? 10'000 : 40'000;
  for (int i = 0; i < kCount; ++i) {
    Packet p = packet(0, 1, 1000, std::uint16_t(i));
    p.service.delivery = Service::Delivery::best_effort;
    net.submit(p, 0s);
  }
  int lost = 0, runs = 0, before = -1;
  for (const Observed& seen : drain(net)) {
    const int gap = seen.tag - before - 1;
    before = seen.tag;
    lost += gap;
    runs += gap > 0;
  }
  return {double(lost) / kCount, double(lost) / runs};
}

TEST(LossBurst, DatagramsAreLostInARow) {
  const Bursts few = bursts(0.05, 0), many = bursts(0.05, 8);
  EXPECT_NEAR(few.share, 0.05, 0.005);
  EXPECT_NEAR(few.mean, 1 / 0.95, 0.03);
  EXPECT_NEAR(many.share, 0.05, longhaul::testing::kGate ? 0.02 : 0.012);
  EXPECT_NEAR(many.mean, 8, longhaul::testing::kGate ? 2 : 1);
}

}  // namespace
}  // namespace longhaul::sim
