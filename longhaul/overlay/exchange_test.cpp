// The rounds of one vector at a node: what it contributes, if anything, and the mean that it keeps.
#include "longhaul/overlay/exchange.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "longhaul/base/testing/effort.h"
#include "longhaul/overlay/testing/forms.h"

namespace longhaul::overlay {
namespace {

using testing::ExchangeConfig;
using testing::forms;
using testing::name;
using Job = testing::Exchange;  // all nodes, each with its Exchange

TEST(Exchange, ErrorFeedbackMovesWhenTheMeanIsHad) {
  for (ExchangeConfig c : forms()) {
    c.lossy = true;
    c.rounds = 3;
    Job exchange(c);
    exchange.run();
    ASSERT_EQ(exchange.disagreement(), "") << name(c);
    // The codec's drift is 1/4 after each delivery: the mean has moved by it.
    for (Round round = 0; round < c.rounds; ++round) {
      const auto& values = exchange.at(0).outcomes()[round].values;
      const auto mean = mean_of(c, {0, 1, 2}, round, 0);
      double moved = 0;
      for (std::size_t i = 0; i < mean.size(); ++i) moved += double(values[i]) - double(mean[i]);
      EXPECT_NEAR(moved / double(mean.size()), 0.25 * double(round), 0.02) << name(c);
    }
  }
}

// Whoever adds the parts: some value is sent by nobody, most by some, and a buffer's 0 is a number.
TEST(Exchange, TheMeanOfSendersIsOverThoseThatSentAValue) {
  for (ExchangeConfig c : forms()) {
    if (sums_on_the_way(c)) continue;
    c.sparse = true;
    c.buffers = 10;
    c.contributes = [](Rank rank, Round round) { return rank != Rank(round); };
    Job exchange(c);
    exchange.run();
    EXPECT_EQ(exchange.disagreement(), "") << name(c);
    const auto& values = exchange.at(0).outcomes()[1].values;
    const auto mean = mean_of(c, {0, 2}, 1, 0);
    EXPECT_GT(std::count(mean.begin(), mean.end(), 0.f), 0);
    EXPECT_EQ(values, mean) << name(c);
  }
}

TEST(Exchange, WhoContributesNothingGetsTheMean) {
  for (ExchangeConfig c : forms()) {
    c.workers = 5;
    c.rounds = 4;
    // Round 0: one of five; 1: all but two; 2: nobody; 3: all.
    c.contributes = [](Rank rank, Round round) {
      return round == 3 || (round == 0 && rank == 2) || (round == 1 && rank != 0 && rank != 3);
    };
    for (c.order = 1; c.order <= longhaul::testing::cases(5); ++c.order) {
      Job exchange(c);
      exchange.run();
      ASSERT_EQ(exchange.disagreement(), "") << name(c);
      EXPECT_EQ(exchange.at(4).outcomes()[0].counted, std::vector<Rank>{2});
      EXPECT_EQ(exchange.at(4).outcomes()[0].values, vector_of(c, 2, 0, 0)) << name(c);
      EXPECT_TRUE(exchange.at(4).outcomes()[2].counted.empty());
    }
  }
}

TEST(Exchange, PhantomsSendAsMuchAndCountAll) {
  for (ExchangeConfig c : forms()) {
    c.workers = 5;
    c.length = (longhaul::testing::kGate ? 2 : 16) * 1024 + 7;
    Job real(c);
    real.run();
    c.phantom = true;
    Job phantom(c);
    phantom.run();
    ASSERT_EQ(phantom.disagreement(), "") << name(c);
    for (Rank rank = 0; rank < c.workers; ++rank)
      EXPECT_EQ(phantom.net().bytes_from(rank), real.net().bytes_from(rank)) << name(c);
  }
}

}  // namespace
}  // namespace longhaul::overlay
