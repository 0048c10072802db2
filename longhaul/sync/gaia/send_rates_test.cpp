#include "longhaul/sync/gaia/send_rates.h"

#include <gtest/gtest.h>

namespace longhaul::sync::gaia {
namespace {

using namespace std::chrono_literals;

TEST(GaiaSendRates, AreOfBytesWhileSomeAreQueued) {
  SendRates rates;
  EXPECT_EQ(rates.until_sent(1, 100), std::nullopt);
  rates.queued(1, 1000, 0s);
  EXPECT_EQ(rates.until_sent(1, 100), std::nullopt) << "nothing has left yet";
  rates.sent(1, 1000, 2s);  // 500 bytes a second
  EXPECT_DOUBLE_EQ(*rates.until_sent(1, 250), 0.5);
  rates.queued(1, 1000, 100s);  // the pause does not count
  EXPECT_DOUBLE_EQ(*rates.until_sent(1, 250), 2.5);
  rates.sent(1, 400, 101s);
  rates.sent(1, 600, 102s);
  EXPECT_NEAR(*rates.until_sent(1, 500), 1, 0.02);
  EXPECT_EQ(rates.until_sent(2, 100), std::nullopt);
}

TEST(GaiaSendRates, NewerOnesCountMore) {
  SendRates rates;
  rates.queued(1, 1'000'000, 0s);
  rates.sent(1, 1000, 1s);
  for (int i = 0; i < 20; ++i) rates.sent(1, 100, Time(1s) + (i + 1) * Time(1s));
  const double rest = 1'000'000 - 3000;
  EXPECT_NEAR(*rates.until_sent(1, 0), rest / 100, rest / 1000);
}

TEST(GaiaSendRates, WhatLeavesAtOnceHasNoRate) {
  SendRates rates;
  rates.queued(1, 1000, 5s);
  rates.sent(1, 1000, 5s);
  EXPECT_EQ(rates.until_sent(1, 100), std::nullopt);
}

}  // namespace
}  // namespace longhaul::sync::gaia
