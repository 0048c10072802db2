#include "longhaul/sim/fifo_network.h"

#include <gtest/gtest.h>

#include <deque>
#include <set>

#include "longhaul/base/rng.h"

namespace longhaul::sim {
namespace {

using namespace std::chrono_literals;
using Kind = Notice::Kind;

struct Seen {
  Kind kind;
  Rank from, to;
  double at;
  std::uint16_t tag;
  friend bool operator==(const Seen&, const Seen&) = default;
};

Packet packet(Rank from, Rank to, std::uint64_t bytes, std::uint16_t tag = 0, bool bulk = true) {
  Packet p{.from = from, .to = to, .bytes = bytes, .service = {}, .message = {}};
  p.message.kind = tag;
  if (bulk) p.message.body = Payload::phantom(bytes);
  return p;
}

std::vector<Seen> drain(FifoNetwork& net, Time until = Time::max(), bool departures = false) {
  std::vector<Seen> seen;
  while (net.next_event() && *net.next_event() <= until) {
    const Time at = *net.next_event();
    const auto notice = net.advance();
    if (!notice || (notice->kind == Kind::departed && !departures)) continue;
    seen.push_back({notice->kind, notice->packet.from, notice->packet.to, double(at.count()) / 1e9,
                    notice->packet.message.kind});
  }
  return seen;
}

// n sites of one node; up and down at 1 MB/s, 50 ms one way.
FifoConfig equal(std::uint32_t n) {
  FifoConfig config;
  config.sites.resize(n, {.up = 1e6, .down = 1e6, .lan = 1e7, .lan_delay = 1ms});
  for (std::uint32_t i = 0; i < n; ++i) config.site_of.push_back(i);
  config.link.delay = 50ms;
  return config;
}

TEST(FifoNetwork, AMessageTakesItsBytesOverTheSlowestStageAndTheDelay) {
  const auto time = [](Rate up, Rate pair, Rate down) {
    FifoConfig config = equal(2);
    config.sites[0].up = up;
    config.sites[1].down = down;
    config.link.rate = pair;
    FifoNetwork net(config);
    net.submit(packet(0, 1, 1'000'000), Time{0});
    return drain(net).at(0).at;
  };
  EXPECT_DOUBLE_EQ(time(1e6, {}, 4e6), 1.05);
  EXPECT_DOUBLE_EQ(time(4e6, {}, 1e6), 1.05);
  EXPECT_DOUBLE_EQ(time(4e6, 5e5, 1e6), 2.05);
  EXPECT_DOUBLE_EQ(time({}, {}, {}), 0.05);
}

// mutant: longhaul/sim/fifo_network.cpp
//   - server.free_at = start + occupancy(bytes, server.rate);
//   + server.free_at = std::max(start + occupancy(bytes, server.rate), arriving.end);
TEST(FifoNetwork, ASlowStageUpstreamDoesNotHoldAFasterOne) {
  FifoConfig config = equal(3);
  config.sites[0].up = 1e5;  // 10 s for a megabyte
  FifoNetwork net(config);
  net.submit(packet(0, 2, 1'000'000, 1), 0s);
  net.submit(packet(1, 2, 1'000'000, 2), 0s);
  const std::vector<Seen> seen = drain(net);
  ASSERT_EQ(seen.size(), 2u);
  // The downlink works for 1 s at each: the first one's stream goes on until 10 s, the second one
  // does not wait for that.
  EXPECT_EQ(seen[0], (Seen{Kind::delivered, 1, 2, 2.05, 2}));
  EXPECT_EQ(seen[1], (Seen{Kind::delivered, 0, 2, 10.05, 1}));
}

// mutant: longhaul/sim/fifo_network.cpp
//   - events_.push(span.start + delay, {Event::Kind::arrives, slot, flight.use, end});
//   + events_.push(now, {Event::Kind::arrives, slot, flight.use, end});
TEST(FifoNetwork, TheDownlinkServesInOrderOfArrivalNotOfSubmission) {
  FifoConfig config = equal(3);
  config.links[{0, 2}].delay = 500ms;
  config.links[{1, 2}].delay = 20ms;
  FifoNetwork net(config);
  net.submit(packet(0, 2, 1'000'000, 1), 0s);
  net.submit(packet(1, 2, 1'000'000, 2), 100ms);
  const std::vector<Seen> seen = drain(net);
  ASSERT_EQ(seen.size(), 2u);
  EXPECT_EQ(seen[0], (Seen{Kind::delivered, 1, 2, 1.12, 2}));
  EXPECT_EQ(seen[1], (Seen{Kind::delivered, 0, 2, 2.12, 1}));
}

TEST(FifoNetwork, EightSitesToOneTakeTheTimeOfItsDownlink) {
  FifoNetwork net(equal(9));
  for (Rank from = 1; from < 9; ++from)
    for (int chunk = 0; chunk < 4; ++chunk) net.submit(packet(from, 0, 250'000), 0s);
  EXPECT_DOUBLE_EQ(drain(net).back().at, 8.05);
}

TEST(FifoNetwork, KChunksTakeAsLongAsOneMessageOfTheirBytes) {
  const auto time = [](int chunks) {
    FifoConfig config = equal(2);
    config.link.rate = 7e5;
    FifoNetwork net(config);
    for (int i = 0; i < chunks; ++i)
      net.submit(packet(0, 1, std::uint64_t(1'050'000 / chunks)), 0s);
    return drain(net).back().at;
  };
  EXPECT_NEAR(time(100), time(1), 1e-6);
  EXPECT_NEAR(time(1), 1.55, 1e-6);
}

TEST(FifoNetwork, ARunOfChunksDepartsAndArrivesWithItsLastAndWhatFollowsItWaits) {
  FifoNetwork net(equal(3));
  Packet run = packet(0, 1, 1'000'000, 1);
  run.chunks = 10;
  net.submit(run, 0s);
  net.submit(packet(0, 1, 100'000, 2), 0s);  // behind the run
  net.submit(packet(0, 2, 100'000, 3), 0s);  // behind the two chunks under way
  const std::vector<Seen> seen = drain(net, Time::max(), true);
  ASSERT_EQ(seen.size(), 6u);
  EXPECT_EQ(seen[0], (Seen{Kind::departed, 0, 2, 0.3, 0}));
  EXPECT_EQ(seen[1], (Seen{Kind::delivered, 0, 2, 0.35, 3}));
  EXPECT_EQ(seen[2], (Seen{Kind::departed, 0, 1, 1.1, 0}));
  EXPECT_EQ(seen[3], (Seen{Kind::delivered, 0, 1, 1.15, 1}));
  EXPECT_EQ(seen[4], (Seen{Kind::departed, 0, 1, 1.2, 0}));
  EXPECT_EQ(seen[5], (Seen{Kind::delivered, 0, 1, 1.25, 2}));
}

// mutant: longhaul/sim/fifo_network.cpp
//   - events_.push(span.end, {Event::Kind::departs, slot, flight.use});
//   + events_.push(span.end + delay, {Event::Kind::departs, slot, flight.use});
TEST(FifoNetwork, BulkDepartsWhenTheSendersSideIsThroughAndControlDoesNotTell) {
  FifoConfig config = equal(2);
  config.link.rate = 5e5;  // the slower stage of the two at the sender's side
  FifoNetwork net(config);
  net.submit(packet(0, 1, 1'000'000, 1), 0s);
  net.submit(packet(0, 1, 100, 2, false), 0s);
  EXPECT_TRUE(net.has_bulk());
  const std::vector<Seen> seen = drain(net, Time::max(), true);
  ASSERT_EQ(seen.size(), 3u);
  EXPECT_EQ(seen[0], (Seen{Kind::departed, 0, 1, 2.0, 0}));
  EXPECT_EQ(seen[1], (Seen{Kind::delivered, 0, 1, 2.05, 1}));
  EXPECT_EQ(seen[2].tag, 2);
  EXPECT_FALSE(net.has_bulk());
}

TEST(FifoNetwork, NodesOfASiteUseTheirPortsOnTheLan) {
  FifoConfig config = equal(2);
  config.site_of = {0, 0, 0, 1};
  FifoNetwork net(config);
  net.submit(packet(0, 1, 1'000'000), 0s);  // two senders, one receiving port of 10 MB/s
  net.submit(packet(2, 1, 1'000'000), 0s);
  net.submit(packet(0, 3, 1'000'000), 0s);  // the uplink is another server
  const std::vector<Seen> seen = drain(net);
  EXPECT_DOUBLE_EQ(seen.at(0).at, 0.101);
  EXPECT_DOUBLE_EQ(seen.at(1).at, 0.201);
  EXPECT_DOUBLE_EQ(seen.at(2).at, 1.05);
}

// Packets of all sizes between 4 nodes on 3 sites, while ways are cut and healed; each must come
// once, in order on its way.
void run_random_traffic(std::uint64_t seed) {
  FifoConfig config = equal(3);
  config.site_of = {0, 0, 1, 2};
  config.links[{1, 2}] = {1e5, 300ms};
  FifoNetwork net(config);
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

// mutant: longhaul/sim/fifo_network.cpp
//   - parked.emplace(f.number, Parked{std::move(f.packet), f.told});
//   + parked.emplace(~f.number, Parked{std::move(f.packet), f.told});
TEST(FifoNetwork, OrderHoldsOnEveryWayThroughCutsAndHeals) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    run_random_traffic(seed);
  }
}

TEST(FifoNetwork, ACrashTakesWhatHasNotLeftAndWhatIsForIt) {
  FifoNetwork net(equal(3));
  for (std::uint16_t tag = 1; tag <= 4; ++tag) net.submit(packet(0, 1, 500'000, tag), 0s);
  net.submit(packet(2, 0, 500'000, 9), 0s);
  net.crash(0, 1100ms);  // 1 and 2 have left by then
  net.submit(packet(0, 1, 10, 5), 1200ms);
  const std::vector<Seen> seen = drain(net);
  ASSERT_EQ(seen.size(), 2u);
  EXPECT_EQ(seen[0].tag, 1);
  EXPECT_EQ(seen[1].tag, 2);
}

TEST(FifoNetwork, AnArchivedNetworkGoesOn) {
  for (const int after : {0, 3, 7, 12}) {
    FifoNetwork net(equal(3)), loaded(equal(3));
    net.cut(1, 2, 0s);
    for (std::uint16_t tag = 0; tag < 12; ++tag) {
      Packet p = packet(tag % 3, (tag + 1) % 3, 100'000, tag);
      p.chunks = tag % 2 + 1;
      net.submit(std::move(p), 10ms * tag);
    }
    for (int i = 0; i < after; ++i) net.advance();
    Archive save;
    net.state(save);
    const Buffer bytes = save.take();
    Archive load(bytes);
    loaded.state(load);
    ASSERT_TRUE(load.finish());
    for (FifoNetwork* each : {&net, &loaded}) each->heal(1, 2, 500ms);
    EXPECT_EQ(drain(loaded, Time::max(), true), drain(net, Time::max(), true));
  }
}

}  // namespace
}  // namespace longhaul::sim
