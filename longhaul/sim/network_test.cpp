#include "longhaul/sim/network.h"

#include <gtest/gtest.h>

#include <deque>
#include <set>

#include "longhaul/base/rng.h"
#include "longhaul/base/testing/effort.h"
#include "longhaul/sim/packet_network.h"
#include "longhaul/sim/testing/networks.h"

// What holds for every model of links.
namespace longhaul::sim {
namespace {

using namespace std::chrono_literals;
using testing::drain;
using testing::equal;
using testing::last;
using testing::Observed;
using testing::packet;
using Kind = NetworkEvent::Kind;

template <class Net>
auto config_of(const FifoConfig& config) {
  if constexpr (std::is_same_v<Net, FifoNetwork>) {
    return config;
  } else if constexpr (std::is_same_v<Net, FairNetwork>) {
    return testing::shared(config);
  } else {
    return PacketConfig{.wan = testing::shared(config).wan, .site_of = config.site_of};
  }
}

template <class Net>
class AnyNetwork : public ::testing::Test {};
using Networks = ::testing::Types<FifoNetwork, FairNetwork>;
TYPED_TEST_SUITE(AnyNetwork, Networks);

// What holds for models of packets, too.
template <class Net>
class AnyOrder : public ::testing::Test {};
using AllNetworks = ::testing::Types<FifoNetwork, FairNetwork, PacketNetwork>;
TYPED_TEST_SUITE(AnyOrder, AllNetworks);

TYPED_TEST(AnyNetwork, AMessageTakesItsBytesOverTheSlowestStageAndTheDelay) {
  const auto time = [](Rate up, Rate pair, Rate down) {
    FifoConfig config = equal(2);
    config.sites[0].up = up;
    config.sites[1].down = down;
    config.link.rate = pair;
    TypeParam net(config_of<TypeParam>(config));
    net.submit(packet(0, 1, 1'000'000), Time{0});
    return drain(net).at(0).at;
  };
  EXPECT_DOUBLE_EQ(time(1e6, {}, 4e6), 1.05);
  EXPECT_DOUBLE_EQ(time(4e6, {}, 1e6), 1.05);
  EXPECT_DOUBLE_EQ(time(4e6, 5e5, 1e6), 2.05);
  EXPECT_DOUBLE_EQ(time({}, {}, {}), 0.05);
}

TYPED_TEST(AnyNetwork, EightSitesToOneTakeTheTimeOfItsDownlink) {
  TypeParam net(config_of<TypeParam>(equal(9)));
  for (Rank from = 1; from < 9; ++from)
    for (int chunk = 0; chunk < 4; ++chunk) net.submit(packet(from, 0, 250'000), 0s);
  EXPECT_DOUBLE_EQ(last(net), 8.05);
}

TYPED_TEST(AnyNetwork, KChunksTakeAsLongAsOneMessageOfTheirBytes) {
  const auto time = [](int chunks) {
    FifoConfig config = equal(2);
    config.link.rate = 7e5;
    TypeParam net(config_of<TypeParam>(config));
    for (int i = 0; i < chunks; ++i)
      net.submit(packet(0, 1, std::uint64_t(1'050'000 / chunks)), 0s);
    return last(net);
  };
  EXPECT_NEAR(time(100), time(1), 1e-6);
  EXPECT_NEAR(time(1), 1.55, 1e-6);
}

TYPED_TEST(AnyNetwork, BulkDepartsWhenTheSendersSideIsThroughAndControlDoesNotTell) {
  FifoConfig config = equal(2);
  config.link.rate = 5e5;  // the slower stage of the two at the sender's side
  TypeParam net(config_of<TypeParam>(config));
  net.submit(packet(0, 1, 1'000'000, 1), 0s);
  net.submit(packet(0, 1, 100, 2, false), 0s);
  EXPECT_TRUE(net.has_bulk());
  const std::vector<Observed> seen = drain(net, Time::max(), true);
  ASSERT_EQ(seen.size(), 3u);
  EXPECT_EQ(seen[0], (Observed{Kind::departed, 0, 1, 2.0, 0}));
  EXPECT_EQ(seen[1], (Observed{Kind::delivered, 0, 1, 2.05, 1}));
  EXPECT_EQ(seen[2].tag, 2);
  EXPECT_FALSE(net.has_bulk());
}

// Packets of all sizes between 4 nodes on 3 sites, while ways are cut and healed; each must come
// once, in order on its way.
template <class Net>
void run_random_traffic(std::uint64_t seed) {
  FifoConfig config = equal(3);
  config.site_of = {0, 0, 1, 2};
  config.links[{1, 2}] = {1e5, 300ms};
  Net net(config_of<Net>(config));
  Random random(seed, {});
  std::map<std::pair<Rank, Rank>, std::deque<std::uint16_t>> sent;
  std::set<std::pair<Rank, Rank>> cut;
  Time now{0};
  const auto run_to = [&](Time until) {
    while (net.next_event() && *net.next_event() <= until) {
      ASSERT_GE(*net.next_event(), now);
      now = *net.next_event();
      const auto notice = net.advance();
      if (!notice || notice->kind == Kind::departed) continue;
      const std::pair way{notice->packet.from, notice->packet.to};
      ASSERT_FALSE(cut.contains(way));
      ASSERT_FALSE(sent[way].empty());
      ASSERT_EQ(sent[way].front(), notice->packet.message.kind);
      sent[way].pop_front();
    }
    if (until != Time::max()) now = until;
  };
  for (std::uint16_t tag = 0; tag < 120; ++tag) {
    const Rank from = Rank(random.below(4)), to = Rank(from + 1 + random.below(3)) % 4;
    run_to(now + Time{std::int64_t(random.below(30'000'000))});
    const std::uint64_t what = random.below(8);
    if (what == 0 && cut.insert({from, to}).second) {
      net.cut(from, to, now);
    } else if (what <= 2 && !cut.empty()) {
      const auto way = *cut.begin();
      cut.erase(way);
      net.heal(way.first, way.second, now);
    } else {
      Packet p = packet(from, to, 1 + random.below(50'000), tag, random.below(2) == 1);
      if (p.message.is_bulk() && random.below(3) == 0)
        p.chunks = 1 + std::uint32_t(random.below(9));
      net.submit(std::move(p), now);
      sent[{from, to}].push_back(tag);
    }
  }
  for (const auto& way : std::exchange(cut, {})) net.heal(way.first, way.second, now);
  run_to(Time::max());
  for (const auto& [way, line] : sent) EXPECT_TRUE(line.empty());
  EXPECT_FALSE(net.has_bulk());
}

TYPED_TEST(AnyOrder, HoldsOnEveryWayThroughCutsAndHeals) {
  for (std::uint64_t seed = 0; seed < longhaul::testing::cases(200); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    run_random_traffic<TypeParam>(seed);
  }
}

TYPED_TEST(AnyNetwork, ACrashTakesWhatHasNotLeftAndWhatIsForIt) {
  TypeParam net(config_of<TypeParam>(equal(3)));
  for (std::uint16_t tag = 1; tag <= 4; ++tag) net.submit(packet(0, 1, 500'000, tag), 0s);
  net.submit(packet(2, 0, 500'000, 9), 0s);
  const std::vector<Observed> before = drain(net, 1100ms);
  net.crash(0, 1100ms);  // 1 and 2 have left by then
  net.submit(packet(0, 1, 10, 5), 1100ms);
  EXPECT_TRUE(drain(net).empty());
  ASSERT_EQ(before.size(), 3u);
  EXPECT_EQ(before[0].at, 0.55);
  EXPECT_EQ(before[2], (Observed{Kind::delivered, 0, 1, 1.05, 2}));
}

TYPED_TEST(AnyNetwork, WhatHasLeftACrashedNodeArrivesAndWhatIsForItDoesNot) {
  TypeParam net(config_of<TypeParam>(equal(3)));
  net.submit(packet(0, 1, 500'000, 1), 0s);
  net.submit(packet(2, 0, 400'000, 2), 0s);
  EXPECT_TRUE(drain(net, 510ms).size() == 1);  // what is for it, before the crash
  net.submit(packet(2, 0, 1000, 3), 510ms);
  net.crash(0, 510ms);
  const std::vector<Observed> seen = drain(net);
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0], (Observed{Kind::delivered, 0, 1, 0.55, 1}));
}

TYPED_TEST(AnyNetwork, AnArchivedNetworkGoesOn) {
  for (int after = 0; after < 40; ++after) {
    TypeParam net(config_of<TypeParam>(equal(3))), loaded(config_of<TypeParam>(equal(3)));
    net.cut(1, 2, 0s);
    for (std::uint16_t tag = 0; tag < 12; ++tag) {
      Packet p = packet(tag % 3, (tag + 1) % 3, std::uint64_t(100'000 + 10'000 * tag), tag);
      p.chunks = tag % 2 + 1;
      net.submit(std::move(p), 0s);
    }
    Time now{0};
    for (int i = 0; i < after && net.next_event(); ++i) {
      now = *net.next_event();
      net.advance();
    }
    const Buffer bytes = testing::save(net);
    ASSERT_TRUE(testing::load(loaded, bytes));
    EXPECT_EQ(testing::save(loaded), bytes);
    for (Network* each : {static_cast<Network*>(&net), static_cast<Network*>(&loaded)})
      each->heal(1, 2, now);
    EXPECT_EQ(drain(loaded, Time::max(), true), drain(net, Time::max(), true));
  }
}

}  // namespace
}  // namespace longhaul::sim
