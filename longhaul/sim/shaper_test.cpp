#include "longhaul/sim/shaper.h"

#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "longhaul/base/testing/effort.h"
#include "longhaul/flow/testing/draw.h"
#include "longhaul/sim/testing/networks.h"

namespace longhaul::sim {
namespace {

using namespace std::chrono_literals;
using Changed = Change::What;
using Of = flow::Traced::What;
using TraceKind = flow::Trace::Kind;

flow::Wan alike(std::size_t sites, flow::Rate rate, double delay_s) {
  flow::Wan wan;
  wan.sites.resize(sites);
  for (auto& site : wan.sites) site.up = site.down = rate;
  wan.usual.delay_s = delay_s;
  return wan;
}

struct Given {
  Time at;
  IpPacket packet;
};

// Offers the packets at their times (in order) and gathers all verdicts.
std::vector<PacketOutcome> run(Shaper& shaper, const std::vector<Given>& given,
                               Time until = Time::max()) {
  std::vector<PacketOutcome> seen;
  const auto advance = [&](Time now) {
    while (const auto outcome = shaper.advance(now)) seen.push_back(*outcome);
  };
  for (const Given& one : given) {
    advance(one.at);
    if (const auto outcome = shaper.offer(one.packet, one.at)) seen.push_back(*outcome);
  }
  advance(until);
  return seen;
}

std::vector<Given> burst(std::uint32_t from, std::uint32_t to, int count, std::uint32_t bytes,
                         Time at = 0s, Time gap = 0s, unsigned service_class = 0) {
  std::vector<Given> given;
  for (int i = 0; i < count; ++i)
    given.push_back({at + i * gap, {from, to, bytes, service_class, false, std::uint64_t(i)}});
  return given;
}

std::vector<Given> sorted(std::vector<Given> given) {
  std::stable_sort(given.begin(), given.end(),
                   [](const Given& a, const Given& b) { return a.at < b.at; });
  return given;
}

std::size_t count(const std::vector<PacketOutcome>& seen, PacketFate fate) {
  return std::size_t(std::count_if(seen.begin(), seen.end(),
                                   [&](const PacketOutcome& v) { return v.fate == fate; }));
}

// L1: an idle path takes each link's bytes / rate, one after the other, and the delay: exactly.
TEST(Shaper, L1_AnIdlePathIsExact) {
  flow::Wan wan = alike(3, {}, 0.040);
  wan.sites[0].up = 1e6;
  wan.sites[1].down = 5e5;
  wan.pairs[{0, 1}] = {.rate = 2e5, .delay_s = 0.030};
  wan.shared.push_back({"backbone", 1e5, {{0, 1}}});
  Shaper shaper(wan, 1);
  const auto seen =
      run(shaper, {{10ms, {0, 1, 1000}}, {300ms, {1, 0, 1000}}, {400ms, {2, 1, 1000}}});
  ASSERT_EQ(seen.size(), 3u);
  // 1000 bytes: 1 ms, 5 ms, 10 ms, 30 ms of delay, 2 ms.
  EXPECT_EQ(seen[0].at, 10ms + 1ms + 5ms + 10ms + 30ms + 2ms);
  EXPECT_EQ(seen[1].at, 300ms + 40ms);
  EXPECT_EQ(seen[2].at, 400ms + 40ms + 2ms);
  EXPECT_EQ(shaper.under_way(), 0u);
}

TEST(Shaper, L1_WindowsLimitAPair) {
  flow::Wan wan = alike(2, {}, 0);
  wan.usual.flow = 1e5;
  wan.streams = 2;
  Shaper shaper(wan, 1);
  const auto seen = run(shaper, {{0ms, {0, 1, 1000}}});
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0].at, 5ms);
}

// L2: what happens is the same however seldom the caller comes; only offers must be on time.
RC_GTEST_PROP(Shaper, L2_TimesDoNotDependOnWhenItIsAsked, ()) {
  static int turn = 0;
  if (!flow::testing::tried(turn)) return;
  flow::Wan wan = alike(3, 1e6, 0.010);
  wan.usual.jitter_s = 0.001;
  wan.usual.loss = 0.1;
  std::vector<Given> given;
  Time at{0};
  for (int i = 0; i < 80; ++i) {
    at += Time(*rc::gen::inRange(0, 3'000'000));
    const std::uint32_t from = *rc::gen::inRange(0u, 3u);
    given.push_back({at,
                     {from, (from + *rc::gen::inRange(1u, 3u)) % 3, *rc::gen::inRange(40u, 1500u),
                      *rc::gen::inRange(0u, 8u), *rc::gen::arbitrary<bool>(), std::uint64_t(i)}});
  }
  Shaper seldom(wan, 1), often(wan, 1);
  const auto one = run(seldom, given);
  std::vector<PacketOutcome> two;
  const auto step = [&](Time until) {
    while (often.next_event() && *often.next_event() <= until)
      if (const auto outcome = often.advance(*often.next_event())) two.push_back(*outcome);
  };
  for (const Given& g : given) {
    step(g.at);
    if (const auto outcome = often.offer(g.packet, g.at)) two.push_back(*outcome);
  }
  step(Time::max());
  RC_ASSERT(one.size() == given.size());
  RC_ASSERT(two.size() == given.size());
  for (std::size_t i = 0; i < one.size(); ++i) {
    RC_ASSERT(one[i].at == two[i].at);
    RC_ASSERT(one[i].packet.tag == two[i].packet.tag);
    RC_ASSERT(one[i].fate == two[i].fate);
  }
}

// L3: no link carries more than its rate over any stretch of time, beyond one packet; and a link
// that has something to send sends at its rate.
RC_GTEST_PROP(Shaper, L3_NeverAboveCapacityAndNeverIdleWithWork, ()) {
  static int turn = 0;
  if (!flow::testing::tried(turn, 8)) return;
  constexpr double kRate = 250'000;
  constexpr std::uint32_t kPackets = 80;  // of a flow; its queue holds them all
  Shaper shaper(alike(4, kRate, 0.005), 1);
  std::vector<Given> given;
  double offered = 0;
  std::uint32_t largest = 0;
  for (std::uint32_t from = 1; from < 4; ++from) {
    const auto size = *rc::gen::inRange(60u, 1500u);
    largest = std::max(largest, size);
    const auto flow = burst(from, 0, kPackets, size, Time(*rc::gen::inRange(0, 1'000'000)), 100us);
    given.insert(given.end(), flow.begin(), flow.end());
    offered += double(kPackets) * size;
  }
  const auto seen = run(shaper, sorted(given));
  RC_ASSERT(count(seen, PacketFate::delivered) == seen.size());
  for (std::size_t i = 0; i < seen.size(); ++i) {
    double bytes = 0;  // of those after i, up to j
    bool within = true;
    for (std::size_t j = i + 1; j < seen.size(); ++j) {
      bytes += seen[j].packet.bytes;
      within &= bytes <= kRate * seconds(seen[j].at - seen[i].at) + 1e-3;
    }
    RC_ASSERT(within);
  }
  // All is there when the downlink has carried it, one packet through an uplink, and the delay.
  const double end = seconds(seen.back().at);
  RC_ASSERT(end >= offered / kRate);
  RC_ASSERT(end <= offered / kRate + 0.001 + 0.005 + 2 * largest / kRate);
}

// L4: packets of a flow come in the order in which they were sent, with jitter too.
TEST(Shaper, L4_OrderIsKept) {
  flow::Wan wan = alike(2, {}, 0.020);
  wan.usual.jitter_s = 0.005;
  Shaper shaper(wan, 3);
  shaper.change({.what = Changed::delay, .from = 0, .to = 1, .value = 0.050}, 0s);
  auto given = burst(0, 1, 500, 1000, 0s, 100us);
  std::vector<PacketOutcome> seen;
  for (const Given& one : given) {
    // A route that becomes shorter at once: what is on the long one is not overtaken.
    if (one.at == 20ms) shaper.change({.what = Changed::delay, .to = 1, .value = 0.005}, one.at);
    while (const auto outcome = shaper.advance(one.at)) seen.push_back(*outcome);
    ASSERT_FALSE(shaper.offer(one.packet, one.at));
  }
  while (const auto outcome = shaper.advance(Time::max())) seen.push_back(*outcome);
  ASSERT_EQ(seen.size(), 500u);
  for (std::size_t i = 0; i < seen.size(); ++i) ASSERT_EQ(seen[i].packet.tag, i);
}

// L5: strict priority: a packet of a higher class waits for one packet at a link, whatever the
// lower classes have there.
TEST(Shaper, L5_AHigherClassWaitsForOnePacketOnly) {
  flow::Wan wan = alike(3, {}, 0.010);
  wan.sites[0].up = 1e6;
  Shaper shaper(wan, 1);
  auto given = burst(0, 1, 80, 1500);
  given.push_back({2ms, {0, 1, 100, 7, false, 1000}});
  given.push_back({2ms, {0, 2, 100, 5, false, 2000}});
  const auto seen = run(shaper, given);
  const auto at = [&](std::uint64_t tag) {
    return std::find_if(seen.begin(), seen.end(),
                        [&](const PacketOutcome& v) { return v.packet.tag == tag; })
        ->at;
  };
  EXPECT_EQ(at(1000), 3ms + 100us + 10ms);  // the packet of 1500 bytes is through at 3 ms
  EXPECT_EQ(at(2000), 3ms + 200us + 10ms);
}

// L6: two pairs that share an uplink and always have something to send share it evenly; a pair
// that cannot use its share leaves it to the other.
TEST(Shaper, L6_PairsShareALinkEvenly) {
  flow::Wan wan = alike(3, {}, 0.010);
  wan.sites[0].up = 1e6;
  Shaper shaper(wan, 1);
  auto given = burst(0, 1, 80, 1500);  // all of one before all of the other
  const auto second = burst(0, 2, 40, 1500, 1us);
  given.insert(given.end(), second.begin(), second.end());
  int first = 0, other = 0;
  for (const PacketOutcome& v : run(shaper, given)) {
    if (v.at > 10ms + 60ms) break;  // 40 packets
    ++(v.packet.to == 1 ? first : other);
  }
  EXPECT_NEAR(first, 20, 1);
  EXPECT_NEAR(other, 20, 1);
}

// L11: bare acknowledgements do not wait for data that goes the same way, but for their turn.
TEST(Shaper, L11_AcknowledgementsDoNotWaitForData) {
  flow::Wan wan = alike(2, {}, 0.010);
  wan.sites[0].up = 1e6;
  Shaper shaper(wan, 1);
  auto given = burst(0, 1, 80, 1500);
  for (const std::uint64_t tag : {1000u, 1001u}) given.push_back({2ms, {0, 1, 100, 0, true, tag}});
  std::vector<Time> answered;
  for (const PacketOutcome& v : run(shaper, given))
    if (v.packet.answer) answered.push_back(v.at);
  // The second packet of 1500 bytes is through at 3 ms.
  EXPECT_EQ(answered, (std::vector<Time>{3ms + 100us + 10ms, 3ms + 200us + 10ms}));
}

// L7: of many packets the share `loss` is lost, independently, on that pair alone.
TEST(Shaper, L7_LosesTheShareThatIsAskedFor) {
  flow::Wan wan = alike(2, {}, 0.001);
  wan.pairs[{0, 1}] = {.rate = {}, .delay_s = 0.001, .jitter_s = 0, .loss = 0.02};
  Shaper shaper(wan, 9);
  const auto seen = run(shaper, burst(0, 1, 50000, 1000, 0s, 10us));
  const double lost = double(count(seen, PacketFate::lost));
  EXPECT_NEAR(lost, 1000, 4 * std::sqrt(1000.0));
  int runs = 0;  // of losses that follow a loss: 2 % of 2 %
  std::vector<bool> gone(50000);
  for (const PacketOutcome& v : seen) gone[v.packet.tag] = v.fate == PacketFate::lost;
  for (std::size_t i = 1; i < gone.size(); ++i) runs += gone[i] && gone[i - 1];
  EXPECT_LT(runs, 45);
  EXPECT_EQ(count(run(shaper, burst(1, 0, 5000, 1000, 1s, 10us)), PacketFate::delivered), 5000u);
}

// L8: a queue holds two round trips' worth of its link, and at least the floor; then the tail
// drops.
TEST(Shaper, L8_QueuesHoldTwoRoundTrips) {
  const auto taken = [](double delay_s) {
    flow::Wan wan = alike(2, {}, delay_s);
    wan.sites[0].up = 1e6;
    Shaper shaper(wan, 1);
    const auto seen = run(shaper, burst(0, 1, 1000, 1000));
    EXPECT_EQ(seen.size(), 1000u);
    return count(seen, PacketFate::delivered);
  };
  EXPECT_EQ(taken(0.150), 601u);  // 1 MB/s x 0.6 s, and the one under way
  EXPECT_EQ(taken(0.001), Shaper::kMinQueueBytes / 1000 + 1);  // 4 ms would be 4 packets
}

// L9: a trace changes rates, delays, loss and ways at its times, also in the middle of a packet.
TEST(Shaper, L9_FollowsATrace) {
  flow::Wan wan = alike(2, {}, 0.010);
  wan.sites[0].up = 1e5;
  wan.shared.push_back({"backbone", 1e9, {{0, 1}}});
  Shaper shaper(wan, 1,
                {{.at = 5ms, .what = Changed::up, .from = 0, .rate = 2e5},
                 {.at = 100ms, .what = Changed::up, .from = 0, .rate = {}},
                 {.at = 100ms, .what = Changed::down, .to = 1, .rate = 1e5},
                 {.at = 200ms, .what = Changed::down, .to = 1, .rate = {}},
                 {.at = 200ms, .what = Changed::pair, .from = 0, .to = 1, .rate = 5e4},
                 {.at = 200ms, .what = Changed::delay, .from = 0, .to = 1, .value = 0.030},
                 {.at = 300ms, .what = Changed::cut, .from = 0, .to = 1},
                 {.at = 400ms, .what = Changed::healed, .from = 0, .to = 1},
                 {.at = 400ms, .what = Changed::shared, .from = 0, .rate = 1e5},
                 {.at = 500ms, .what = Changed::loss, .from = 0, .to = 1, .value = 1}});
  std::vector<Given> given;
  for (const Time at : {0ms, 100ms, 200ms, 300ms, 400ms, 500ms})
    given.push_back({at, {0, 1, 1000}});
  given.push_back({510ms, {1, 0, 1000}});
  const auto seen = run(shaper, given);
  ASSERT_EQ(seen.size(), 7u);
  // Half a packet in 5 ms, the other half in 2.5; 1 us on the backbone.
  EXPECT_EQ(seen[0].at, 7500us + 1us + 10ms);
  EXPECT_EQ(seen[1].at, 100ms + 1us + 10ms + 10ms);
  EXPECT_EQ(seen[2].at, 200ms + 20ms + 1us + 30ms);
  EXPECT_EQ(seen[3].fate, PacketFate::cut);
  EXPECT_EQ(seen[4].at, 400ms + 20ms + 10ms + 30ms);
  EXPECT_EQ(seen[5].fate, PacketFate::delivered);  // the other way: neither slow nor lossy
  EXPECT_EQ(seen[5].at, 520ms);
  EXPECT_EQ(seen[6].fate, PacketFate::lost);
}

// L12: with drop_tail all flows of a class share one queue of the port, acknowledgements too.
TEST(Shaper, L12_OneQueueForAllFlowsOfAClass) {
  flow::Wan wan = alike(3, 1e6, 0.010);
  wan.queue = flow::Wan::Queue::drop_tail;
  wan.queue_s = 0.1;  // 100,000 bytes
  Shaper shaper(wan, 1);
  std::vector<Given> given = burst(0, 1, 50, 1000);
  given.push_back({0s, {.from = 0, .to = 2, .bytes = 52, .answer = true, .tag = 100}});
  given.push_back({0s, {.from = 0, .to = 2, .bytes = 52, .service_class = 5, .tag = 101}});
  const auto seen = run(shaper, given);
  ASSERT_EQ(count(seen, PacketFate::delivered), 52u);
  const auto at = [&](std::uint64_t tag) {
    return std::ranges::find(seen, tag, [](const PacketOutcome& v) { return v.packet.tag; })->at;
  };
  EXPECT_EQ(at(100), 50ms + 10ms + 2 * 52us + 52us);  // behind the data and the one above it
  EXPECT_EQ(at(101), 1ms + 10ms + 2 * 52us);          // a higher class: behind one packet
}

// L13: what does not fit the port's queue_s is dropped, whosever it is; a class has its own room.
TEST(Shaper, L13_ADropTailQueueHoldsItsTime) {
  flow::Wan wan = alike(3, 1e6, 0.010);
  wan.queue = flow::Wan::Queue::drop_tail;
  wan.queue_s = 0.1;
  Shaper shaper(wan, 1);
  std::vector<Given> given = burst(0, 1, 150, 1000);
  for (Given& one : burst(0, 2, 10, 1000, 0s, 0s, 5)) given.push_back(one);
  for (Given& one : burst(0, 2, 10, 1000)) given.push_back(one);
  const auto seen = run(shaper, given);
  EXPECT_EQ(count(seen, PacketFate::queue_full), 49u + 10u);  // 1 under way, 100 wait
  Shaper small([&] { return wan.queue_s = 0.001, wan; }(), 1);
  EXPECT_EQ(count(run(small, burst(0, 1, 50, 1000)), PacketFate::queue_full), 50u - 16u);
}

// L14: losses come in bursts of the mean length, and the share is kept.
TEST(Shaper, L14_LosesInBursts) {
  flow::Wan wan = alike(2, {}, 0.010);
  wan.usual.loss = 0.1;
  wan.usual.loss_burst = 5;
  Shaper shaper(wan, 1);
  constexpr int kPackets = longhaul::testing::kGate ? 40'000 : 100'000;
  std::vector<bool> lost(kPackets);
  for (const PacketOutcome& v : run(shaper, burst(0, 1, kPackets, 100, 0s, 1us)))
    lost[v.packet.tag] = v.fate == PacketFate::lost;
  int all = 0, bursts = 0;
  for (int i = 0; i < kPackets; ++i) {
    all += lost[std::size_t(i)];
    bursts += lost[std::size_t(i)] && (i == 0 || !lost[std::size_t(i - 1)]);
  }
  EXPECT_NEAR(double(all) / kPackets, 0.1, 0.008);
  EXPECT_NEAR(double(all) / bursts, 5, 0.3);
}

// The traces of a Wan mean in the emulated WAN what they mean in the simulator.

constexpr std::uint32_t kBytes = 1000;
constexpr int kCount = 2000;

flow::Wan two_sites(Of what, const flow::Trace& trace) {
  flow::Wan wan;
  wan.sites.resize(2);
  wan.shared.push_back({"backbone", 1e9, {{0, 1}}});
  // Others, to be told apart by their numbers: the reverse way changes too.
  wan.traces = {{.what = Of::rate, .a = 1, .b = 0, .trace = trace},
                {.what = what,
                 .a = what == Of::down ? 1u : 0u,
                 .b = what == Of::shared || what == Of::up || what == Of::down ? 0u : 1u,
                 .trace = trace}};
  if (what != Of::shared) wan.shared.clear();
  return wan;
}

const std::vector<flow::Trace> kRates = {
    {.at = {0, 0.3, 0.5}, .values = {2e5, 9e5, 0}, .repeat_s = 0.7},
    {.kind = TraceKind::redraw, .low = 1e5, .high = 1e6, .every_s = 0.1},
    {.kind = TraceKind::markov, .low = 1e5, .high = 1e6, .low_s = 0.05, .high_s = 0.1},
    {.kind = TraceKind::day,
     .low = 1e5,
     .high = 1e6,
     .every_s = 0.05,
     .period_s = 2,
     .peak_s = 0.3}};

// When each of many packets is there that one site sends as fast as it can.
std::vector<Time> shaped(const flow::Wan& wan, std::uint64_t seed) {
  Shaper shaper(wan, seed);
  std::vector<Time> arrived;
  int offered = 0;
  const auto offer = [&](Time now) {
    if (offered++ >= kCount) return;
    EXPECT_FALSE(shaper.offer({0, 1, kBytes}, now));
  };
  for (int i = 0; i < 20; ++i) offer(Time{0});  // so that it always has something to send
  while (arrived.size() < std::size_t(kCount)) {
    const Time next = *shaper.next_event();
    while (const auto outcome = shaper.advance(next)) {
      EXPECT_EQ(outcome->fate, PacketFate::delivered);
      arrived.push_back(outcome->at);
      offer(outcome->at);
    }
  }
  return arrived;
}

sim::FairConfig simulator(const flow::Wan& wan, std::uint64_t seed) {
  sim::FairConfig config{.wan = wan, .site_of = {0, 1}, .seed = seed};
  config.tcp.first_window = 0;
  config.tcp.mtu = 0;
  return config;
}

std::vector<Time> simulated(const flow::Wan& wan, std::uint64_t seed) {
  sim::FairNetwork net(simulator(wan, seed));
  for (int i = 0; i < kCount; ++i) net.submit(sim::testing::packet(0, 1, kBytes), Time{0});
  std::vector<Time> arrived;
  while (arrived.size() < std::size_t(kCount)) {
    const Time at = *net.next_event();
    const auto notice = net.advance();
    if (notice && notice->kind == sim::NetworkEvent::Kind::delivered) arrived.push_back(at);
  }
  return arrived;
}

// L10: at any time as many bytes have passed as in the simulator of the same seed, whatever
// changes: so both apply the same values at the same times.
TEST(Traces, L10_RatesAreThoseOfTheSimulator) {
  for (const Of what : {Of::up, Of::down, Of::rate, Of::shared})
    for (const flow::Trace& trace : kRates)
      for (const std::uint64_t seed : {1u, 8u}) {
        if (longhaul::testing::kGate && seed == 8) continue;
        SCOPED_TRACE(::testing::Message()
                     << "what " << int(what) << ", kind " << int(trace.kind) << ", seed " << seed);
        const flow::Wan wan = two_sites(what, trace);
        const auto here = shaped(wan, seed), there = simulated(wan, seed);
        for (std::size_t i = 0; i < here.size(); ++i) {
          // An outage lets Shaper::kStalledRate through; a change takes effect within 1 ns there.
          const double within = trace.kind == TraceKind::steps ? 1e-4 : 5e-6;
          ASSERT_NEAR(seconds(here[i]), seconds(there[i]), within) << "packet " << i;
        }
      }
}

TEST(Traces, L10_DelaysAreThoseOfTheSimulator) {
  const flow::Wan wan = two_sites(
      Of::delay, {.kind = TraceKind::redraw, .low = 0.005, .high = 0.05, .every_s = 0.13});
  Shaper shaper(wan, 3);
  sim::FairNetwork net(simulator(wan, 3));
  std::vector<Time> here, there;
  const auto advance = [&](Time until) {
    while (const auto outcome = shaper.advance(until)) here.push_back(outcome->at);
    while (*net.next_event() <= until) {
      const Time at = *net.next_event();
      const auto notice = net.advance();
      if (notice && notice->kind == sim::NetworkEvent::Kind::delivered) there.push_back(at);
    }
  };
  for (Time at{0}; at < 5s; at += 7ms) {
    advance(at);
    ASSERT_FALSE(shaper.offer({0, 1, kBytes}, at));
    net.submit(sim::testing::packet(0, 1, kBytes), at);
  }
  advance(6s);
  ASSERT_EQ(here.size(), there.size());
  ASSERT_GT(here.size(), 700u);
  for (std::size_t i = 0; i < here.size(); ++i)
    ASSERT_NEAR(seconds(here[i]), seconds(there[i]), 1e-8) << "packet " << i;
}

TEST(Traces, L10_LossIsTheShareThatTheTraceSays) {
  const flow::Trace trace{.kind = TraceKind::redraw, .low = 0, .high = 0.9, .every_s = 1};
  Shaper shaper(two_sites(Of::loss, trace), 3);
  flow::TraceSegment stretch = flow::first_segment(trace, 3, 1);
  for (int second = 0; second < 8; ++second) {
    int lost = 0, seen = 0;
    const auto count = [&](const std::optional<PacketOutcome>& outcome) {
      if (outcome) ++seen, lost += outcome->fate == PacketFate::lost;
    };
    for (int i = 0; i < 1000; ++i) {
      const Time at = second * 1s + i * 1ms;
      while (const auto outcome = shaper.advance(at)) count(outcome);
      count(shaper.offer({0, 1, kBytes}, at));
    }
    EXPECT_GE(seen, 999);
    EXPECT_NEAR(lost / 1000.0, stretch.value, 0.07) << "second " << second;
    stretch = flow::next_segment(trace, 3, 1, stretch);
  }
}

// Connections stay within their windows, whatever a trace makes of the pair.
TEST(Traces, WindowsLimitAPairWhoseRateChanges) {
  flow::Wan wan = two_sites(Of::rate, {.at = {0, 1}, .values = {1e6, 1e5}});
  wan.usual.flow = 2e5;
  Shaper shaper(wan, 1);
  ASSERT_FALSE(shaper.offer({0, 1, kBytes}, 0s));
  EXPECT_EQ(shaper.advance(1s)->at, 5ms);
  while (shaper.advance(1s)) {
  }
  ASSERT_FALSE(shaper.offer({0, 1, kBytes}, 1s));
  EXPECT_EQ(shaper.advance(2s)->at, 1s + 10ms);
}

}  // namespace
}  // namespace longhaul::sim
