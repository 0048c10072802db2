// What TCP makes of a connection in the fair network: fair_congestion.cpp, and acknowledgements.
#include <gtest/gtest.h>

#include "longhaul/sim/fair_network.h"
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

FairConfig tcp(double rate, double delay_s, flow::Tcp tcp = {}) {
  FairConfig config;
  config.wan.sites.resize(2);
  config.wan.usual = {.rate = rate, .delay_s = delay_s};
  config.site_of = {0, 1};
  config.tcp = tcp;
  return config;
}

// 15 KB in the first round trip of 100 ms, then 30, 60, 120, 240 ...; at 1 MB/s (100 KB a round
// trip) three of them are slow, 105 KB, and the rest goes at the link's rate.
TEST(FairCongestion, SlowStartDoublesEveryRoundTripUpToTheShare) {
  FairNetwork net(tcp(1e6, 0.05));
  const double bytes = 1448 * 1000;  // 1.5 MB with headers
  net.submit(packet(0, 1, std::uint64_t(bytes)), 0s);
  EXPECT_NEAR(last(net), 0.3 + (1.5 - 0.105) + 0.05, 1e-6);
}

// 15, 30, 60 and 120 KB in four round trips of 200 ms, as the way back takes 150 ms since 1 s;
// whether the way was in use before or not.
TEST(FairCongestion, RoundTripsFollowTheDelayOfTheWayBack) {
  for (const bool before : {false, true}) {
    FairConfig config = tcp(1e6, 0.05);
    config.wan.traces = {{.what = flow::Traced::What::delay, .a = 1, .b = 0, .trace = {}}};
    config.wan.traces[0].trace.at = {0, 1};
    config.wan.traces[0].trace.values = {0.05, 0.15};
    FairNetwork net(config);
    if (before) {
      Packet datagram = packet(0, 1, 1000);
      datagram.service.delivery = Service::Delivery::best_effort;
      net.submit(std::move(datagram), 0s);
    }
    drain(net, 2s);
    net.submit(packet(0, 1, 1'448'000), 2s);
    EXPECT_NEAR(last(net), 2 + 0.8 + (1.5 - 0.225) + 0.05, 1e-6) << before;
  }
}

TEST(FairCongestion, AfterAPauseCubicStartsSlowlyAgainAndBbrDoesNot) {
  for (const auto control : {flow::Tcp::Control::cubic, flow::Tcp::Control::bbr}) {
    FairNetwork net(tcp(1e6, 0.05, {.control = control}));
    net.submit(packet(0, 1, 1'448'000), 0s);
    drain(net);
    net.submit(packet(0, 1, 1'448'000), 60s);
    const double slow = control == flow::Tcp::Control::cubic ? 0.3 - 0.105 : 0;
    EXPECT_NEAR(last(net), 60 + 1.5 + slow + 0.05, 1e-6);
  }
}

// One ring all-reduce of 25 MB among 8 sites, 1 % loss and 40 ms there and back: 14 steps of an
// eighth each. Measured with real sockets: 5.5 s under bbr, 104 s under cubic.
TEST(FairCongestion, LossCostsCubicItsRateAndBbrNext_ToNothing) {
  const auto ring = [](flow::Tcp::Control control) {
    FairConfig config = tcp(12.5e6, 0.02, {.control = control});
    config.wan.usual.loss = 0.01;
    FairNetwork net(config);
    double time = 0;
    for (int step = 0; step < 14; ++step) {
      net.submit(packet(0, 1, 25'000'000 / 8), from_seconds(time));
      time = last(net);
    }
    return time;
  };
  const double bbr = ring(flow::Tcp::Control::bbr), cubic = ring(flow::Tcp::Control::cubic);
  EXPECT_GT(bbr, 14 * 3.125 / 12.5);
  EXPECT_LT(bbr, 6.0);
  EXPECT_NEAR(cubic, 104, 0.2 * 104);
}

// Parallel connections lose, and begin, each by itself.
TEST(FairCongestion, ParallelStreamsAreFasterUnderLossAndAtTheBeginning) {
  const auto time = [](std::uint32_t streams, double loss, std::uint64_t bytes) {
    FairConfig config = tcp(1e9, 0.1, {.control = flow::Tcp::Control::cubic});
    config.wan.usual.loss = loss;
    config.wan.streams = streams;
    FairNetwork net(config);
    net.submit(packet(0, 1, bytes), 0s);
    return last(net);
  };
  EXPECT_NEAR(time(1, 0.01, 200'000'000) / time(8, 0.01, 200'000'000), 8, 0.8);
  EXPECT_GT(time(1, 0, 20'000'000) - time(8, 0, 20'000'000),
            2 * 0.1);  // three doublings less, of a round trip each
}

// When the last packet arrives that goes from `from` to `to`.
double last(const std::vector<Observed>& seen, Rank from, Rank to) {
  double at = 0;
  for (const Observed& s : seen)
    if (s.from == from && s.to == to) at = s.at;
  return at;
}

// Where something comes the other way, its acknowledgements take 52 bytes of 3000: on the uplink of
// who receives at the same time, and not on a pair whose other direction is idle.
TEST(FairCongestion, AcknowledgementsTakeTheirShareOfTheOtherWay) {
  for (const bool thin_pairs : {false, true}) {
    FairConfig config = shared(equal(3));
    config.tcp.mtu = 1500;
    if (thin_pairs) config.wan.usual.rate = 5e5;
    const double each = 1.448e6 / 1448 * 1500 / (thin_pairs ? 5e5 : 1e6);
    const double acks = each * 52 / 3000;
    for (const Rank to : {Rank(1), Rank(2)}) {  // 0 sends to 1, and 1 back or on to 2
      FairNetwork net(config);
      for (int i = 0; i < 3; ++i) net.submit(packet(0, 1, 1'448'000), 0s);
      for (int i = 0; i < 3; ++i) net.submit(packet(1, to == 1 ? 0 : 2, 1'448'000), 0s);
      const std::vector<Observed> seen = drain(net);
      // The first packets begin while the other way is idle.
      const bool back = to == 1 || !thin_pairs;
      EXPECT_NEAR(last(seen, 1, to == 1 ? 0 : 2), 3 * each + 2 * (back ? acks : 0) + 0.05, 1e-6);
    }
    FairNetwork alone(config);
    for (int i = 0; i < 3; ++i) alone.submit(packet(0, 1, 1'448'000), 0s);
    EXPECT_NEAR(last(alone), 3 * each + 0.05, 1e-6);
  }
}

TEST(FairCongestion, SavedBetweenTwoThatBeginAtOnceTheyGoOn) {
  FairConfig config = shared(equal(2));
  config.tcp.mtu = 1500;
  FairNetwork net(config), loaded(config);
  net.submit(packet(0, 1, 1'448'000), 1s);
  ASSERT_TRUE(testing::load(loaded, testing::save(net)));
  loaded.submit(packet(1, 0, 1'448'000), 1s);
  EXPECT_NEAR(last(loaded), 1 + 1.5 + 0.05, 1e-6) << "each began while the other way was idle";
}

// A link of 1 MB/s at 100 ms on which bbr rests: four packets a round trip for 300 ms, of which 100
// pass until what was under way has gone.
class BbrRests : public ::testing::Test {
 protected:
  static constexpr double kRest = 0.3 - 0.3 * 4 * 1500 / 0.1 / 1e6;  // what one costs
  static constexpr double kSmall = (85 + 52) / 1e6;
  void send(double megabytes, Time at) {
    net_.submit(packet(0, 1, std::uint64_t(megabytes * 1e6 * 1448 / 1500)), at);
  }
  void send_small(Time at) { net_.submit(packet(0, 1, 85, 2, false), at); }
  double last_arrival() { return last(net_); }

  FairNetwork net_{tcp(1e6, 0.05)};
};

// Every 10 s; who pauses when a rest is due has rested.
TEST_F(BbrRests, EveryTenSeconds) {
  send(25, 0s);
  const double slow = 0.3 - 0.105;
  EXPECT_NEAR(last_arrival(), 25 + slow + 2 * kRest + 0.05, 1e-5);
  send(9, 60s);
  EXPECT_NEAR(last_arrival(), 69.05, 1e-5);
  send(2, 69500ms);
  EXPECT_NEAR(last_arrival(), 71.55 + kRest, 1e-5);
}

// A small message before the data is not a rest that is due.
TEST_F(BbrRests, BeginWithTheAnswerToASmallMessage) {
  send(1, 0s);
  last_arrival();
  send_small(20s);
  send(0.05, 20s);
  EXPECT_NEAR(last_arrival(), 20.1 + kSmall, 1e-5) << "over before the answer";
  send_small(40s);
  send(2, 40s);
  EXPECT_NEAR(last_arrival(), 42.05 + kSmall + kRest, 1e-5);
}

// The first small packet since a rest is as good as one: a ping or a message.
TEST_F(BbrRests, ArePutOffByTheFirstSmallPacket) {
  send(12, 0s);  // rests from 10 s to 10.3 s, ends at 12.44 s
  last_arrival();
  send_small(20s);
  send(2, 20s);
  EXPECT_NEAR(last_arrival(), 22.05 + kSmall, 1e-5) << "a ping was answered at 13.5 s";
  send(2, 22500ms);
  EXPECT_NEAR(last_arrival(), 24.55 + kRest, 1e-5);
  send_small(25200ms);
  send(0.05, 25200ms);
  last_arrival();
  send(2.9, 32200ms);  // the rest would have been due at 33.8 s; after a ping, at 36.3 s
  EXPECT_NEAR(last_arrival(), 35.15, 1e-5);
  send(1, 35200ms);
  EXPECT_NEAR(last_arrival(), 36.25 + kRest, 1e-5) << "of what was said at 25.2 s";
}

// A rest that ends in a pause has ended; one that has not goes on.
TEST_F(BbrRests, EndInAPause) {
  send(9.81, 0s);  // some KB of it after 10 s
  EXPECT_LT(last_arrival(), 10.2);
  const Buffer in_probe_rtt = testing::save(net_);
  send(1, 10500ms);
  EXPECT_NEAR(last_arrival(), 11.55, 1e-5);
  ASSERT_TRUE(testing::load(net_, in_probe_rtt));
  send(1, 10200ms);
  EXPECT_NEAR(last_arrival(), 11.25 + 0.1 - 0.006, 1e-5) << "six KB in the rest's last 100 ms";
}

// What was said over the connection before is nothing to the next one.
TEST_F(BbrRests, BeginAnewWithTheConnection) {
  send_small(1s);
  last_arrival();
  net_.cut(0, 1, 2s);
  net_.heal(0, 1, 2200ms);
  send_small(2500ms);
  last_arrival();
  send(7.2, 5s);  // the new connection would rest at 12 s, now at 12.6 s
  const double slow = 0.3 - 0.105;
  EXPECT_NEAR(last_arrival(), 5 + 7.2 + slow + 0.05, 1e-5);
}

// Among many the others take up what a rest leaves, so it is no change of rates; but what only one
// connection may use nobody takes up. All go at 1 MB/s, before the rests.
TEST_F(BbrRests, AreToldWhereTheyLeaveMuchOfALink) {
  const auto told = [](std::uint32_t senders, double down, flow::Rate flow) {
    FairConfig config;
    config.wan.sites.resize(senders + 1);
    config.wan.sites[0].down = down;
    config.wan.usual = {.rate = {}, .delay_s = 0.05, .flow = flow};
    for (std::uint32_t site = 0; site <= senders; ++site) config.site_of.push_back(site);
    FairNetwork net(config);
    for (Rank rank = 1; rank <= senders; ++rank) net.submit(packet(rank, 0, 15'000'000), 0s);
    double least = 1e6;
    while (const auto at = net.next_event()) {
      if (*at > 12s) break;
      net.advance();
      for (Rank rank = 1; rank <= senders; ++rank)
        least = std::min(least, net.rate(rank, 0, packet(rank, 0, 1).service));
    }
    return least < 61e3;
  };
  EXPECT_TRUE(told(16, 16e6, {}));
  EXPECT_FALSE(told(30, 30e6, {}));
  EXPECT_TRUE(told(30, 60e6, 1e6));
}

// What is saved knows of pauses what it knew.
TEST_F(BbrRests, GoOnFromWhatWasSaved) {
  const auto load = [&] {
    FairNetwork loaded(tcp(1e6, 0.05));
    EXPECT_TRUE(testing::load(loaded, testing::save(net_)));
    return loaded;
  };
  send(1, 0s);
  last_arrival();
  send_small(5s);
  last_arrival();
  FairNetwork one = load();
  one.submit(packet(0, 1, 85, 2, false), 12s);
  one.submit(packet(0, 1, 4 * 965'333), 12s);
  EXPECT_NEAR(last(one), 16.05 + kSmall + kRest, 1e-4) << "put off at 2.3 s, and not again";
  send_small(30s);
  FairNetwork two = load();
  two.submit(packet(0, 1, 965'333), 30s);
  EXPECT_NEAR(last(two), 31.05 + kSmall + kRest, 1e-4) << "before the answer";
}

}  // namespace
}  // namespace longhaul::sim
