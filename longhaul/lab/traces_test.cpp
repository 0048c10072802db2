// The traces of a Wan mean in the emulated WAN what they mean in the simulator.
#include <gtest/gtest.h>

#include <cmath>

#include "longhaul/base/testing/effort.h"
#include "longhaul/lab/shaper.h"
#include "longhaul/sim/testing/networks.h"

namespace longhaul::lab {
namespace {

using namespace std::chrono_literals;
using Of = flow::Traced::What;
using Kind = flow::Trace::Kind;

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
    {.kind = Kind::redraw, .low = 1e5, .high = 1e6, .every_s = 0.1},
    {.kind = Kind::markov, .low = 1e5, .high = 1e6, .low_s = 0.05, .high_s = 0.1},
    {.kind = Kind::day, .low = 1e5, .high = 1e6, .every_s = 0.05, .period_s = 2, .peak_s = 0.3}};

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
  sim::FairConfig config;
  config.wan = wan;
  config.site_of = {0, 1};
  config.seed = seed;
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
          const double within = trace.kind == Kind::steps ? 1e-4 : 5e-6;
          ASSERT_NEAR(seconds(here[i]), seconds(there[i]), within) << "packet " << i;
        }
      }
}

TEST(Traces, L10_DelaysAreThoseOfTheSimulator) {
  const flow::Wan wan =
      two_sites(Of::delay, {.kind = Kind::redraw, .low = 0.005, .high = 0.05, .every_s = 0.13});
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
  const flow::Trace trace{.kind = Kind::redraw, .low = 0, .high = 0.9, .every_s = 1};
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
}  // namespace longhaul::lab
