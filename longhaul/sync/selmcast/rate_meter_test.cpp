#include "longhaul/sync/selmcast/rate_meter.h"

#include <gtest/gtest.h>

namespace longhaul::sync::selmcast {
namespace {

using namespace std::chrono_literals;

TEST(RateMeter, KnowsTheHighestOfTheLastMeasurements) {
  RateMeter meter;
  EXPECT_EQ(meter.rates(3), MeasuredRates{});
  meter.sent(2, 1000, 100ms);
  meter.sent(1, 1000, 500ms);
  meter.received(600);
  meter.end_round(1s);
  EXPECT_EQ(meter.rates(3), (MeasuredRates{4000, 600, {0, 2000, 10000}}));
  for (int round = 0; round < 8; ++round) {  // slower from now on: the first is forgotten
    meter.sent(2, 1000, 1s);
    meter.end_round(1s);
  }
  EXPECT_EQ(meter.rates(3), (MeasuredRates{1000, 600, {0, 2000, 1000}}));
}

// An unknown rate is replaced by the smallest that is known.
TEST(RateMeter, WhatIsNotKnownIsTheSlowest) {
  const MeasuredRates one{50, 0, {0, 5, 0}}, other{0, 30, {7, 0, 0}}, none{};
  const auto network = network_of({&one, &other, &none}, {0, 1, 2});
  EXPECT_EQ(network.up, (std::vector<double>{50, 50, 50}));
  EXPECT_EQ(network.down, (std::vector<double>{30, 30, 30}));
  EXPECT_EQ(network.pairs[1], 5);
  EXPECT_EQ(network.pairs[2], 5);
  EXPECT_EQ(network.pairs[3], 7);
  const auto unknown = network_of({&none, &none}, {0, 1});
  EXPECT_EQ(unknown.up, (std::vector<double>{1, 1}));
  EXPECT_TRUE(unknown.pairs.empty());
}

}  // namespace
}  // namespace longhaul::sync::selmcast
