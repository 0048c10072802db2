#include "longhaul/flow/relays.h"

#include <gtest/gtest.h>

namespace longhaul::flow {
namespace {

// Sites 0 and 2 dial out; 1 and 3 may relay.
Wan four_sites() {
  Wan wan;
  wan.sites.resize(4);
  wan.usual = {.rate = 100.0, .delay_s = 0.01, .loss = 0.1};
  return wan;
}
const std::vector<bool> kDialOut = {true, false, true, false};

TEST(Relays, AreAskedInTheOrderOfTheirSlowestLink) {
  Wan wan = four_sites();
  EXPECT_EQ(relays_of(wan, kDialOut, 0, 2), (std::vector<std::uint32_t>{1, 3})) << "by number";
  wan.pairs[{1, 0}] = {.rate = 100.0, .delay_s = 0.02};
  EXPECT_EQ(relays_of(wan, kDialOut, 0, 2), (std::vector<std::uint32_t>{3, 1})) << "by delay";
  wan.sites[3].up = 90.0;
  EXPECT_EQ(relays_of(wan, kDialOut, 0, 2), (std::vector<std::uint32_t>{1, 3})) << "by its port";
  wan.pairs[{2, 1}] = {.rate = 80.0, .delay_s = 0};
  EXPECT_EQ(relays_of(wan, kDialOut, 0, 2), (std::vector<std::uint32_t>{3, 1})) << "by a link";
  EXPECT_EQ(relays_of(wan, kDialOut, 2, 0), relays_of(wan, kDialOut, 0, 2)) << "both agree";
  EXPECT_TRUE(relays_of(wan, {true, true, true, true}, 0, 2).empty());
}

TEST(Relays, APairIsWhatTheWayThroughItsRelayIs) {
  Wan wan = four_sites();
  wan.pairs[{0, 3}] = {.rate = 500.0, .delay_s = 0.03, .jitter_s = 0.003, .flow = 150.0};
  wan.pairs[{3, 2}] = {.rate = 200.0, .delay_s = 0.01, .jitter_s = 0.004, .loss = 0.5};
  wan.pairs[{2, 3}] = wan.pairs[{3, 0}] = {.rate = 900.0, .delay_s = 0};
  const Wan through = through_relays(wan, kDialOut);
  const Wan::Pair pair = through.pair(0, 2);
  EXPECT_EQ(pair.relay, 3u);
  EXPECT_EQ(pair.rate, 200.0);
  EXPECT_EQ(pair.flow, 150.0);
  EXPECT_DOUBLE_EQ(pair.delay_s, 0.04);
  EXPECT_DOUBLE_EQ(pair.jitter_s, 0.005);
  EXPECT_DOUBLE_EQ(pair.loss, 0.5);
  EXPECT_EQ(through.pair(2, 0).rate, 900.0);
  EXPECT_EQ(through.pair(0, 1), wan.pair(0, 1));
  EXPECT_EQ(through_relays(wan, {true, false, false, false}), wan) << "nothing to relay";
}

}  // namespace
}  // namespace longhaul::flow
