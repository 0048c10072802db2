#include "longhaul/sync/shadow/elastic.h"

#include <gtest/gtest.h>

namespace longhaul::sync::shadow {
namespace {

using Floats = std::vector<float>;
using Phase = ElasticExchange::Phase;

Snapshot copied(Floats values) { return std::make_shared<const Floats>(std::move(values)); }

// One exchange of a trainer; `learned` is added to w at each of the three boundaries between.
void run(ElasticExchange& exchange, Centre& centre, Rank rank, Floats& w, double alpha,
         float learned = 0) {
  exchange.ask();
  ASSERT_TRUE(exchange.on_data(exchange.seq(), centre.values()));
  for (float& x : w) x += learned;
  const Floats d = exchange.difference(w, w.size(), alpha);
  exchange.pushed(d);
  for (float& x : w) x += learned;
  ASSERT_EQ(centre.push(rank, 0, true, exchange.seq(), d, d.size(), alpha), Centre::Taken::moved);
  ASSERT_TRUE(exchange.on_ack(exchange.seq()));
  for (float& x : w) x += learned;
  exchange.follow(w, w.size());
  ASSERT_EQ(exchange.phase(), Phase::idle);
}

// shadowsync_test.cpp, invariants 2 and 4: w + c is what it was and what was learned, with weight
// 1.
TEST(Elastic, AnExchangeConservesTheSumAndWhatIsLearnedMeanwhile) {
  Centre centre;
  centre.begin(Floats{1, -2, 100});
  Floats w[2] = {{4, 0, 1e3f}, {-7, 5, 0.1f}};
  ElasticExchange exchanges[2];
  for (int i = 0; i < 20; ++i) {
    const Rank rank = Rank(i % 2);
    const Floats c = *centre.values(), before = w[rank];
    run(exchanges[rank], centre, rank, w[rank], 0.3, 0.25f);
    for (std::size_t k = 0; k < c.size(); ++k) {
      const double sum = double(before[k]) + double(c[k]) + 0.75;
      EXPECT_NEAR(double(w[rank][k]) + double((*centre.values())[k]), sum,
                  1e-6 * std::max(1.0, std::abs(double(before[k])) + std::abs(double(c[k]))));
    }
  }
}

// shadowsync_test.cpp, invariant 2: two bodies.
TEST(Elastic, ATrainerAndTheCentreComeTogetherByTwoAlpha) {
  Centre centre;
  centre.begin(Floats{0});
  Floats w{1};
  ElasticExchange exchange;
  double apart = 1;
  for (int i = 0; i < 10; ++i) {
    run(exchange, centre, 0, w, 0.2);
    apart *= 1 - 2 * 0.2;
    EXPECT_NEAR(double(w[0]) - double((*centre.values())[0]), apart, 1e-6);
  }
}

// shadowsync_test.cpp, invariant 10
TEST(Elastic, APushIsTakenOnce) {
  Centre centre;
  centre.begin(Floats{1});
  EXPECT_EQ(centre.push(3, 0, true, 5, Floats{2}, 1, 0.5), Centre::Taken::moved);
  EXPECT_EQ(centre.push(3, 0, true, 5, Floats{2}, 1, 0.5), Centre::Taken::seen_before);
  EXPECT_EQ(centre.push(3, 0, true, 4, Floats{2}, 1, 0.5), Centre::Taken::seen_before);
  EXPECT_EQ(*centre.values(), Floats{3});
  EXPECT_EQ(centre.push(2, 0, true, 1, Floats{2}, 1, 0.5), Centre::Taken::moved);
  centre.drop(3);
  EXPECT_EQ(centre.push(3, 0, true, 1, Floats{2}, 1, 0.5), Centre::Taken::moved);
  EXPECT_EQ(*centre.values(), Floats{7});
}

// shadowsync_test.cpp, invariant 10: neither side moves.
TEST(Elastic, APushOfAnotherServerEpochHasNoEffectOnEitherSide) {
  Centre centre;
  centre.begin(Floats{1});
  Floats w{9};
  ElasticExchange exchange;
  exchange.ask();
  exchange.on_data(1, copied({1}));
  const Floats d = exchange.difference(w, 1, 0.5);
  exchange.pushed(d);
  EXPECT_EQ(centre.push(0, 0, false, 1, d, 1, 0.5), Centre::Taken::other_epoch);
  exchange.forget();
  EXPECT_EQ(exchange.phase(), Phase::idle);
  EXPECT_EQ(*centre.values(), Floats{1});
  EXPECT_EQ(w, Floats{9});
}

TEST(Elastic, OnlyAnswersThatAreWaitedForCount) {
  ElasticExchange exchange;
  EXPECT_FALSE(exchange.on_data(1, copied({1})));
  exchange.ask();
  EXPECT_FALSE(exchange.on_data(2, copied({1})));
  EXPECT_FALSE(exchange.on_ack(1));
  EXPECT_TRUE(exchange.on_data(1, copied({1})));
  exchange.pushed({2});
  EXPECT_FALSE(exchange.on_ack(2));
  EXPECT_TRUE(exchange.on_ack(1));
  exchange.forget();  // the centre has moved: the trainer follows
  EXPECT_EQ(exchange.phase(), Phase::has_moved);
  Floats w{5};
  exchange.follow(w, 1);
  EXPECT_EQ(w, Floats{3});
}

// Running statistics: the worker keeps its own, the centre's stay means of what it was given.
TEST(Elastic, BuffersGoToTheCentreOnly) {
  Centre centre;
  centre.begin(Floats{0, 4});
  Floats w{2, 8};
  ElasticExchange exchange;
  exchange.ask();
  exchange.on_data(1, centre.values());
  const Floats d = exchange.difference(w, 1, 0.25);
  EXPECT_EQ(d, (Floats{0.5, 8}));
  exchange.pushed(d);
  centre.push(0, 0, true, 1, d, 1, 0.25);
  EXPECT_EQ(*centre.values(), (Floats{0.5, 5}));
  exchange.on_ack(1);
  exchange.follow(w, 1);
  EXPECT_EQ(w, (Floats{1.5, 8}));
}

}  // namespace
}  // namespace longhaul::sync::shadow
