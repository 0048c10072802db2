#include "longhaul/overlay/belief.h"

#include <cmath>

#include <gtest/gtest.h>

namespace longhaul::overlay {
namespace {

Place place_at(std::vector<std::string> sites) {
  auto members = std::make_shared<Members>();
  for (std::string& site : sites) members->push_back({.site = std::move(site)});
  return {.members = std::move(members), .layout = Layout::flat(1)};
}

flow::Wan between(const std::vector<std::string>& sites) {
  flow::Wan wan;
  for (const std::string& site : sites) wan.sites.emplace_back().name = site;
  return wan;
}

// Sites are found by name: ranks need not be in the network's order.
TEST(Belief, SitesAreKnownByName) {
  EXPECT_EQ(sites_of(between({"a", "b", "c"}), place_at({"c", "a", "a", "b"})),
            (std::vector<std::uint32_t>{2, 0, 0, 1}));
}

// In bytes a second between nodes by rank, of which a has the first two: what is narrowest counts.
TEST(Belief, IsTheLeastThatIsSaidOfPairUplinkAndDownlink) {
  auto network = std::make_shared<flow::Wan>(between({"a", "b", "c"}));
  network->sites[0].up = 5e6;
  network->sites[1].down = 2e6;
  network->usual.rate = 10e6;
  network->pairs[{2, 0}].rate = 1e6;
  flow::Traced& drawn = network->traces.emplace_back();
  drawn.a = 1, drawn.b = 2;
  drawn.trace.kind = flow::Trace::Kind::redraw;
  drawn.trace.low = 3e6, drawn.trace.high = 7e6;
  const RateBelief rate = rates_of(network, place_at({"a", "a", "b", "c"}));
  EXPECT_EQ(rate(0, 3), 5e6) << "the uplink";
  EXPECT_EQ(rate(1, 2), 2e6) << "the downlink";
  EXPECT_EQ(rate(3, 2), 2e6);
  EXPECT_EQ(rate(3, 0), 1e6) << "the pair";
  EXPECT_EQ(rate(2, 0), 10e6) << "the usual pair";
  EXPECT_EQ(rate(2, 3), 7e6) << "what changes, at its highest";
  EXPECT_GT(rate(0, 1), 10e6) << "a LAN";
}

TEST(Belief, OfDelaysIsWhatIsSaidOfThePairOrTheLan) {
  auto network = std::make_shared<flow::Wan>(between({"a", "b"}));
  network->usual.delay_s = 0.02;
  network->pairs[{1, 0}].delay_s = 0.05;
  network->sites[0].lan_delay_s = 0.001;
  const DelayBelief delay = delays_of(network, place_at({"b", "a", "a"}));
  EXPECT_EQ(delay(0, 1), 0.05);
  EXPECT_EQ(delay(1, 0), 0.02);
  EXPECT_EQ(delay(1, 2), 0.001);
  EXPECT_FALSE(delays_of(nullptr, place_at({"a", "b"})));
}

// What nobody limits is unlimited; and of nothing, nothing is believed.
TEST(Belief, OfAnUnlimitedNetworkIsUnlimited) {
  const auto network = std::make_shared<const flow::Wan>(between({"a", "b"}));
  EXPECT_TRUE(std::isinf(rates_of(network, place_at({"a", "b"}))(0, 1)));
  EXPECT_FALSE(rates_of(nullptr, place_at({"a", "b"})));
}

}  // namespace
}  // namespace longhaul::overlay
