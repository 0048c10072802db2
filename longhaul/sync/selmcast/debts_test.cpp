#include "longhaul/sync/selmcast/debts.h"

#include <gtest/gtest.h>

#include "longhaul/base/rng.h"

namespace longhaul::sync::selmcast {
namespace {

// The sum of all debts that are sent equals the sum of the updates; none is lost or
// counted twice, whoever is paid when, and whatever a codec leaves out.
TEST(Debts, WhatIsPaidOwedAndKeptIsTheSumOfTheUpdates) {
  constexpr std::size_t kSize = 5;
  Debts debts;
  Random random(3, {});
  std::vector<double> updates(kSize, 0), paid(kSize, 0), kept(kSize, 0);
  for (int round = 0; round < 40; ++round) {
    std::vector<float> model(kSize, 1);
    debts.begin(model);
    for (std::size_t i = 0; i < kSize; ++i) {
      const auto step = float(random.uniform() - 0.5);
      model[i] += step;
      updates[i] += double(step);
    }
    debts.add(model, {0, 2, 3});
    for (std::size_t i = 0; i < kSize; ++i) kept[i] += double(model[i]) - 1;
    for (const Rank rank : {0u, 2u, 3u}) {
      if (random.below(3) != 0) continue;
      std::vector<float> sent = debts.owed(rank);
      sent[std::size_t(round) % kSize] = 0;  // a codec that leaves a value out
      debts.pay(rank, sent);
      for (std::size_t i = 0; i < kSize; ++i) paid[i] += double(sent[i]);
    }
  }
  for (std::size_t i = 0; i < kSize; ++i) {
    double owed = 0;
    for (const Rank rank : {0u, 2u, 3u}) owed += double(debts.owed(rank)[i]);
    EXPECT_NEAR(paid[i] + owed + kept[i], updates[i], 1e-4);
  }
}

// A payment that its receiver has lost is owed again, once, with what came since.
TEST(Debts, APaymentIsTakenBackOnce) {
  Debts debts;
  const auto step = [&] {
    std::vector<float> model{2};
    debts.begin(std::vector<float>{0});
    debts.add(model, {1});
  };
  step();
  debts.pay(1, std::vector<float>{0.75f});  // a codec left out 0.25
  step();
  debts.take_back(1);
  EXPECT_EQ(debts.owed(1), std::vector<float>{2});
  debts.take_back(1);
  EXPECT_EQ(debts.owed(1), std::vector<float>{2});
  debts.pay(1, debts.owed(1));
  debts.settle_payments();
  debts.take_back(1);
  EXPECT_EQ(debts.owed(1), std::vector<float>{0});
}

TEST(Debts, WhatIsOwedAtTheEndGoesIntoTheMean) {
  Debts debts;
  debts.begin(std::vector<float>{0});
  std::vector<float> model{8};
  debts.add(model, {1, 2, 3});
  EXPECT_EQ(model, std::vector<float>{2});
  debts.pay(1, debts.owed(1));
  debts.forget(3);
  debts.settle(model);
  EXPECT_FLOAT_EQ(model[0], 4);  // what worker 2 is owed, whole: the mean divides it
  EXPECT_FALSE(debts.owes(2));
}

}  // namespace
}  // namespace longhaul::sync::selmcast
