#include "longhaul/sim/fair_network.h"

#include <cmath>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "longhaul/base/testing/effort.h"
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
using Kind = NetworkEvent::Kind;
using What = flow::Traced::What;

Packet with(Packet p, Service service) {
  p.service = service;
  return p;
}
constexpr Service kDatagram{.delivery = Service::Delivery::best_effort};

TEST(FairNetwork, WhoComesLaterSharesFromThenOn) {
  FairNetwork net(shared(equal(3)));
  net.submit(packet(0, 1, 1'000'000, 1), 0s);
  drain(net, 500ms);
  net.submit(packet(0, 2, 1'000'000, 2), 500ms);  // half of the first is left
  const std::vector<Observed> seen = drain(net);
  ASSERT_EQ(seen.size(), 2u);
  EXPECT_NEAR(seen[0].at, 1.55, 1e-8);
  EXPECT_NEAR(seen[1].at, 2.05, 1e-8);
}

TEST(FairNetwork, AHigherClassGoesFirst) {
  FairNetwork net(shared(equal(3)));
  net.submit(with(packet(0, 1, 1'000'000, 1), {.priority = 3}), 0s);
  net.submit(with(packet(0, 2, 500'000, 2), {.priority = 5}), 0s);
  const std::vector<Observed> seen = drain(net);
  EXPECT_EQ(seen.at(0).tag, 2);
  EXPECT_NEAR(seen.at(0).at, 0.55, 1e-8);
  EXPECT_NEAR(seen.at(1).at, 1.55, 1e-8);
}

TEST(FairNetwork, NodesOfASiteShareItsUplinkAndUseTheirPortsOnTheLan) {
  FifoConfig config = equal(2);
  config.site_of = {0, 0, 0, 1};
  FairNetwork net(shared(config));
  net.submit(packet(0, 1, 1'000'000), 0s);  // two senders, one receiving port of 10 MB/s
  net.submit(packet(2, 1, 1'000'000), 0s);
  net.submit(packet(0, 3, 1'000'000), 0s);  // two nodes, one uplink of 1 MB/s
  net.submit(packet(1, 3, 1'000'000), 0s);
  const std::vector<Observed> seen = drain(net);
  EXPECT_DOUBLE_EQ(seen.at(0).at, 0.201);
  EXPECT_DOUBLE_EQ(seen.at(1).at, 0.201);
  EXPECT_DOUBLE_EQ(seen.at(3).at, 2.05);
}

TEST(FairNetwork, PairsThatCrossASharedLinkShareIt) {
  FairConfig config = shared(equal(4));
  config.wan.shared = {{.name = "backbone", .rate = 1e6, .pairs = {{0, 2}, {1, 3}}}};
  FairNetwork net(config);
  net.submit(packet(0, 2, 1'000'000), 0s);
  net.submit(packet(1, 3, 1'000'000), 0s);
  net.submit(packet(3, 0, 1'000'000), 0s);  // does not cross it
  const std::vector<Observed> seen = drain(net);
  EXPECT_DOUBLE_EQ(seen.at(0).at, 1.05);
  EXPECT_DOUBLE_EQ(seen.at(2).at, 2.05);
}

// A control message is not held up by bulk of other classes, nor holds it up.
TEST(FairNetwork, ALoneControlMessageTakesPartInNoSharing) {
  FairNetwork net(shared(equal(2)));
  net.submit(packet(0, 1, 1'000'000, 1), 0s);
  net.submit(with(packet(0, 1, 1000, 2, false), kControl), 0s);
  const std::vector<Observed> seen = drain(net);
  EXPECT_DOUBLE_EQ(seen.at(0).at, 0.051);
  EXPECT_DOUBLE_EQ(seen.at(1).at, 1.05);
}

// The next chunk is submitted when one departs: nothing is computed anew.
TEST(FairNetwork, AChunkAfterAChunkIsOneFlow) {
  FairNetwork net(shared(equal(2)));
  int sent = 0, events = 0;
  for (; sent < 2; ++sent) net.submit(packet(0, 1, 10'000), 0s);
  while (net.next_event()) {
    const Time now = *net.next_event();
    const auto notice = net.advance();
    ++events;
    if (notice && notice->kind == Kind::departed && sent++ < 100)
      net.submit(packet(0, 1, 10'000), now);
  }
  EXPECT_EQ(events, 100 * 2 + 2);  // each departs and is delivered; the flow begins and ends
}

// --- Delays, loss and what else befalls packets -------------------------------------------------

FairConfig unruly(Datagrams datagrams, double loss, double jitter_s = 0) {
  FairConfig config = shared(equal(2));
  config.wan.usual.loss = loss;
  config.wan.usual.jitter_s = jitter_s;
  config.datagrams = datagrams;
  return config;
}

std::vector<Observed> send_datagrams(const FairConfig& config, int count,
                                     Service service = kDatagram) {
  FairNetwork net(config);
  for (int i = 0; i < count; ++i)
    net.submit(with(packet(0, 1, 1000, std::uint16_t(i)), service), 0s);
  std::vector<Observed> seen = drain(net);
  EXPECT_FALSE(net.has_bulk());
  return seen;
}

// Numbers of datagrams lost in a row.
std::vector<int> losses(const std::vector<Observed>& seen) {
  std::vector<int> runs;
  for (std::size_t i = 1; i < seen.size(); ++i)
    if (const int gap = seen[i].tag - seen[i - 1].tag - 1; gap > 0) runs.push_back(gap);
  return runs;
}

TEST(FairNetwork, DatagramsAreLostEachByItself) {
  constexpr int kSent = longhaul::testing::kGate ? 10'000 : 50'000;
  const auto seen = send_datagrams(unruly({}, 0.2), kSent);
  EXPECT_NEAR(double(seen.size()), kSent * 0.8, kSent * 0.011);
  const std::vector<int> runs = losses(seen);
  double sum = 0;
  for (const int run : runs) sum += run;
  EXPECT_NEAR(sum / double(runs.size()), 1.25, 0.4);
}

// They are paced at the rate of the flow, as if all arrived.
TEST(FairNetwork, DatagramsArePacedAndTheLostOnesLeaveGaps) {
  const auto seen = send_datagrams(unruly({}, 0.5), 1000);
  for (const Observed& s : seen) EXPECT_NEAR(s.at, 0.05 + 0.001 * (s.tag + 1), 1e-8);
}

TEST(FairNetwork, DatagramsAreDuplicatedCorruptedAndLate) {
  EXPECT_NEAR(double(send_datagrams(unruly({.corrupted = 0.1}, 0), 10'000).size()), 9000, 150);
  EXPECT_NEAR(double(send_datagrams(unruly({.duplicated = 0.1}, 0), 10'000).size()), 11000, 150);
  const auto seen = send_datagrams(unruly({.late = 0.1, .late_s = 0.02}, 0), 10'000);
  int overtaken = 0;
  for (std::size_t i = 1; i < seen.size(); ++i) overtaken += seen[i].tag < seen[i - 1].tag;
  EXPECT_GT(overtaken, 500);
}

TEST(FairNetwork, JitterReordersDatagramsAndNothingReliable) {
  for (const Service service : {kDatagram, Service{}}) {
    const auto seen = send_datagrams(unruly({}, 0, 0.01), 5000, service);
    ASSERT_EQ(seen.size(), 5000u);
    bool in_order = true;
    double sum = 0, squares = 0;
    for (std::size_t i = 0; i < seen.size(); ++i) {
      in_order &= seen[i].tag == i;
      const double delay = seen[i].at - 0.001 * (seen[i].tag + 1);
      sum += delay / 5000;
      squares += delay * delay / 5000;
    }
    EXPECT_EQ(in_order, service.delivery == Service::Delivery::reliable);
    if (in_order) continue;
    EXPECT_NEAR(sum, 0.05, 0.001);
    EXPECT_NEAR(std::sqrt(squares - sum * sum), 0.01, 0.001);
  }
}

// A packet of one segment that is lost comes a round trip later, and again if lost again; its
// bytes are sent 1 / (1 - loss) times in the mean.
TEST(FairNetwork, WhatIsReliableAndLostIsSentAgain) {
  double later = 0;
  for (std::uint64_t seed = 0; seed < 4000; ++seed) {
    FairConfig config = unruly({}, 0.2);
    config.seed = seed;
    FairNetwork net(config);
    net.submit(packet(0, 1, 1000), 0s);
    const double at = last(net);
    EXPECT_GE(at, 0.05125 - 1e-9);
    later += (at - 0.05125) / 4000;
  }
  EXPECT_NEAR(later, 0.025, 0.0025);  // 0.2 / (1 - 0.2) round trips
}

// --- Traces -------------------------------------------------------------------------------------

flow::Traced traced(What what, std::uint32_t a, std::uint32_t b, double at, double v0, double v1) {
  flow::Traced t{.what = what, .a = a, .b = b, .trace = {}};
  t.trace.at = {0, at};
  t.trace.values = {v0, v1};
  return t;
}

TEST(FairNetwork, RatesFollowTheirTraces) {
  for (const What what : {What::up, What::down, What::rate, What::shared}) {
    FairConfig config = shared(equal(2));
    config.wan.shared = {{.name = "s", .rate = 1e7, .pairs = {{0, 1}}}};
    const std::uint32_t a = what == What::down ? 1 : 0, b = what == What::rate ? 1 : 0;
    config.wan.traces = {traced(what, a, b, 1, 5e5, 1e5)};
    FairNetwork net(config);
    net.submit(packet(0, 1, 1'000'000), 0s);
    EXPECT_NEAR(last(net), 1 + 5 + 0.05, 1e-6) << int(what);
  }
}

TEST(FairNetwork, AnOutageStopsAndGoesOn) {
  FairConfig config = shared(equal(2));
  config.wan.traces = {traced(What::up, 0, 0, 0.5, 1e6, 0)};
  config.wan.traces[0].trace.at = {0, 0.5, 7};
  config.wan.traces[0].trace.values = {1e6, 0, 1e6};
  FairNetwork net(config);
  net.submit(packet(0, 1, 1'000'000), 0s);
  EXPECT_NEAR(last(net), 7.5 + 0.05, 1e-6);
}

TEST(FairNetwork, DelayAndLossFollowTheirTraces) {
  FairConfig config = shared(equal(2));
  config.wan.traces = {traced(What::delay, 0, 1, 1, 0.01, 0.2),
                       traced(What::loss, 0, 1, 1, 0, 0.9)};
  FairNetwork net(config);
  net.submit(packet(0, 1, 1000, 1), 0s);
  EXPECT_NEAR(last(net), 0.011, 1e-9);
  drain(net, 1s);
  for (std::uint16_t tag = 0; tag < 1000; ++tag)
    net.submit(with(packet(0, 1, 1000, tag), kDatagram), 1s);
  const auto seen = drain(net);
  EXPECT_NEAR(double(seen.size()), 100, 40);
  EXPECT_NEAR(seen.front().at, 1.2 + 0.001 * (seen.front().tag + 1), 1e-6);
}

// What a connection has made of its delay and its loss is not made again of the one before the
// other is known.
TEST(FairNetwork, SavedAndLoadedDelaysAndLossesAreThoseOfTheirTraces) {
  FairConfig config = shared(equal(2));
  config.tcp.control = flow::Tcp::Control::cubic;
  config.wan.usual.delay_s = 0;
  for (const auto& [from, to] : {flow::SitePair{0, 1}, flow::SitePair{1, 0}}) {
    config.wan.traces.push_back(traced(What::delay, from, to, 1, 0.01, 0.05));
    config.wan.traces.push_back(traced(What::loss, from, to, 1, 0, 0.01));
  }
  FairNetwork net(config), loaded(config);
  net.submit(packet(0, 1, 2'000'000), 0s);
  drain(net, 2500ms);
  const Buffer bytes = testing::save(net);
  ASSERT_TRUE(testing::load(loaded, bytes));
  ASSERT_EQ(testing::save(loaded), bytes);
  net.submit(packet(0, 1, 1000), 3s);
  loaded.submit(packet(0, 1, 1000), 3s);
  EXPECT_EQ(last(loaded), last(net));
}

// --- All of it ----------------------------------------------------------------------------------

FairConfig eventful(std::uint64_t seed) {
  FairConfig config = shared(equal(4));
  config.site_of = {0, 0, 1, 2, 3};
  config.seed = seed;
  config.wan.usual = {.rate = 8e5, .delay_s = 0.02, .jitter_s = 0.004, .loss = 0.03};
  config.wan.shared = {{.name = "s", .rate = 9e5, .pairs = {{0, 1}, {0, 2}, {3, 1}}}};
  flow::Traced redrawn{.what = What::up, .a = 0, .b = 0, .trace = {}};
  redrawn.trace = {.kind = flow::Trace::Kind::redraw, .low = 2e5, .high = 2e6, .every_s = 0.05};
  flow::Traced switched{.what = What::loss, .a = 0, .b = 1, .trace = {}};
  switched.trace = {.kind = flow::Trace::Kind::markov, .high = 0.3, .low_s = .05, .high_s = .05};
  config.wan.traces = {redrawn, switched};
  config.tcp = {.control = seed % 2 ? flow::Tcp::Control::cubic : flow::Tcp::Control::bbr};
  config.datagrams = {.duplicated = 0.1, .corrupted = 0.1, .late = 0.1};
  return config;
}

// Goes on for a while, by what the random numbers say; what was seen.
std::vector<Observed> play(FairNetwork& net, Random& random, Time& now, int turns) {
  std::vector<Observed> seen;
  for (; turns > 0; --turns) {
    const Time until = now + Time{std::int64_t(random.below(20'000'000))};
    for (const Observed& s : drain(net, until, true)) seen.push_back(s);
    now = until;
    const Rank from = Rank(random.below(5)), to = Rank(from + 1 + random.below(4)) % 5;
    const std::uint64_t what = random.below(12);
    if (what == 0) net.cut(from, to, now);
    if (what == 1) net.heal(from, to, now);
    if (what == 2 && turns == 7) net.crash(from, now);
    if (what < 3) continue;
    const Service service{.delivery = Service::Delivery(what % 2),
                          .priority = std::uint8_t(3 + what % 3)};
    net.submit(
        with(packet(from, to, 1 + random.below(60'000), std::uint16_t(turns), what != 5), service),
        now);
  }
  return seen;
}

TEST(FairNetwork, SavedAndLoadedAfterAnythingItGoesOnBitForBit) {
  for (std::uint64_t seed = 0; seed < 150; seed += longhaul::testing::kGate ? 11 : 1) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    FairNetwork net(eventful(seed)), loaded(eventful(seed));
    Random random(seed, {});
    Time now{0};
    play(net, random, now, int(seed));
    const Buffer bytes = testing::save(net);
    const Status status = testing::load(loaded, bytes);
    ASSERT_TRUE(status) << status.error().what;
    ASSERT_EQ(testing::save(loaded), bytes);
    Random again = random;
    Time then = now;
    ASSERT_EQ(play(loaded, again, then, 60), play(net, random, now, 60));
    ASSERT_EQ(testing::save(loaded), testing::save(net));
  }
}

TEST(FairNetwork, ATornStateIsAnErrorOrANetworkThatCanBeRun) {
  FairNetwork source(eventful(5));
  Random random(5, {});
  Time now{0};
  play(source, random, now, 60);
  const Buffer saved = testing::save(source);
  for (std::size_t size = 0; size < saved.size(); size += longhaul::testing::kGate ? 61 : 3) {
    FairNetwork torn(eventful(5));
    EXPECT_FALSE(testing::load(torn, std::span(saved).first(size))) << size;
  }
}

// Which connection was there first, and in which order they were told to send at one instant,
// changes no rate.
RC_GTEST_PROP(FairNetwork, TheOrderOfConnectionsDoesNotMatter, ()) {
  const auto number = [](int below) {
    return *rc::gen::resize(rc::kNominalSize, rc::gen::inRange(0, below));
  };
  FairConfig config = shared(equal(5));
  for (auto& site : config.wan.sites) site.up = 1e5 * (1 + number(7)) / 3;
  config.wan.usual.rate = 7e4;
  config.wan.shared = {{.name = "s", .rate = 1e5, .pairs = {{0, 1}, {2, 3}, {0, 3}}}};
  std::vector<std::pair<Rank, Rank>> ways;
  for (int i = number(15); i >= 0; --i) {
    const Rank from = Rank(number(5));
    ways.emplace_back(from, (from + 1 + Rank(number(4))) % 5);
  }
  FairNetwork one(config), other(config);
  for (const auto& [from, to] : ways) one.submit(packet(from, to, 1'000'000), 0s);
  for (std::size_t i = ways.size(); i-- > 0;)
    other.submit(packet(ways[i].first, ways[i].second, 1'000'000), 0s);
  for (FairNetwork* net : {&one, &other}) net->advance();
  for (const auto& [from, to] : ways)
    RC_ASSERT(one.rate(from, to, {}) > 0 && one.rate(from, to, {}) == other.rate(from, to, {}));
}

// --- fair queues

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

// --- fair multicast

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
