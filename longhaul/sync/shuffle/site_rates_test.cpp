#include "longhaul/sync/shuffle/site_rates.h"

#include <gtest/gtest.h>

#include <cmath>

#include "longhaul/sync/testing/one_node.h"

namespace longhaul::sync::shuffle {
namespace {

using testing::OneNode;
using CrossTime = SiteRates::CrossTime;

// Two workers at each of the sites a, b and c: ranks 0 and 1, 2 and 3, 4 and 5.
struct Here {
  explicit Here(Rank self = 0) : node(4, {}, {{"a"}, {"a"}, {"b"}, {"b"}, {"c"}, {"c"}}) {
    node.place.self = self;
  }
  Status hear(Rank from, const CrossTime& time) {
    Message message = longhaul::testing::message_of(time);
    return rates.on_message(from, message, node.turn);
  }
  // A pair's exchange: the first one waited for the other.
  void cross(Rank one, Rank other, double took) {
    ++round;
    if (one == node.place.self)
      rates.crossed(round, other, from_seconds(took + 3), node.turn);
    else
      EXPECT_TRUE(hear(one, {round, other, took + 3}));
    EXPECT_TRUE(hear(other, {round, one, took}));
  }
  // Every pair of sites once, with exchanges through site b that take so long.
  void tournament(double through_b) {
    cross(0, 2, through_b);
    cross(1, 4, 1);
    cross(3, 5, through_b);
  }
  std::vector<Rank> change() {
    const auto slow = rates.change(known, node.turn);
    changed = slow.has_value();
    if (slow) known = *slow;
    std::vector<Rank> sites;
    for (const SlowSite& one : known) sites.push_back(one.site);
    return sites;
  }
  OneNode node;
  SiteRates rates;
  Round round = 0;
  SlowSites known;
  bool changed = false;
};

TEST(SiteRates, ASiteIsSlowWhenItsMovingAverageIsBelowHalfOfTheMedianOfItsFirstTen) {
  Here here;
  for (int i = 0; i < 5; ++i) here.tournament(1);
  EXPECT_EQ(here.change(), std::vector<Rank>{});
  // 0.2 + 0.8 * 0.8^k < 0.5 from the fifth on: two a tournament.
  for (int i = 0; i < 2; ++i) {
    here.tournament(5);
    EXPECT_EQ(here.change(), std::vector<Rank>{}) << i;
  }
  here.tournament(5);
  EXPECT_EQ(here.change(), std::vector<Rank>{2});
  EXPECT_TRUE(here.changed);
  EXPECT_DOUBLE_EQ(here.known[0].reference, 1);
  EXPECT_NEAR(here.known[0].rate, 0.2 + 0.8 * std::pow(0.8, 6), 1e-9);
  EXPECT_EQ(here.change(), std::vector<Rank>{2});
  EXPECT_FALSE(here.changed) << "only once";
}

TEST(SiteRates, WhileASiteIsKnownToBeSlowItsPartnersAreNotJudgedByIt) {
  Here here;
  for (int i = 0; i < 5; ++i) here.tournament(1);
  for (int i = 0; i < 3; ++i) here.tournament(20);
  ASSERT_EQ(here.change(), std::vector<Rank>{2}) << "the slowest alone";
  for (int i = 0; i < 30; ++i) here.cross(i % 2 == 0 ? 0 : 4, 2, 20);
  EXPECT_EQ(here.change(), std::vector<Rank>{2});
  for (int i = 0; i < 2; ++i) here.cross(0, 2, 1);
  EXPECT_EQ(here.change(), std::vector<Rank>{2}) << "0.05 + 0.95 (1 - 0.8^2) < 0.5";
  here.cross(0, 2, 1);
  EXPECT_EQ(here.change(), std::vector<Rank>{});
  EXPECT_TRUE(here.changed);
}

// What was measured before the plan is no reason for a second site.
TEST(SiteRates, AfterAChangeASiteIsJudgedByWhatItMeasuresThen) {
  Here here;
  for (int i = 0; i < 10; ++i) here.cross(0, 2, 1);
  for (int i = 0; i < 10; ++i) here.cross(0, 2, 10);
  EXPECT_EQ(here.change(), std::vector<Rank>{0}) << "of two that are alike the first";
  EXPECT_EQ(here.change(), std::vector<Rank>{0});
  for (int i = 0; i < 10; ++i) here.cross(2, 4, 10);
  EXPECT_EQ(here.change(), (std::vector<Rank>{0, 2}));
}

TEST(SiteRates, WaitingForAPartnerIsNotSlowness) {
  Here here;
  for (int i = 0; i < 40; ++i) here.cross(i % 2 == 0 ? 0 : 2, i % 2 == 0 ? 2 : 0, 0.1);
  EXPECT_EQ(here.change(), std::vector<Rank>{}) << "the one that began first took 3 s more";
}

TEST(SiteRates, AWorkerTellsThePlannerAlone) {
  Here here(3);
  here.rates.crossed(7, 4, from_seconds(2), here.node.turn);
  ASSERT_EQ(here.node.done<Send>().size(), 1u);
  const Send send = here.node.done<Send>()[0];
  EXPECT_EQ(send.to, 0u);
  const auto said = from_wire<CrossTime>(send.message.head.view());
  EXPECT_EQ(said->round, 7u);
  EXPECT_EQ(said->partner, 4u);
  EXPECT_EQ(said->seconds, 2);
  EXPECT_EQ(here.change(), std::vector<Rank>{});
}

// A planner that follows a lost one has measured nothing, and knows of the slow site from the plan.
TEST(SiteRates, TheNextPlannerGoesOnFromThePlan) {
  Here here(2);
  here.known = {{4, 1, 0.2}};
  EXPECT_EQ(here.change(), std::vector<Rank>{4});
  const View before = here.node.view;
  for (const Rank rank : {0u, 1u}) here.node.view.live.erase(rank);
  here.rates.on_view(before, here.node.turn);
  EXPECT_EQ(here.change(), std::vector<Rank>{4});
  for (int i = 0; i < 3; ++i) here.cross(2, 4, 1);
  EXPECT_EQ(here.change(), std::vector<Rank>{}) << "1 - 0.8^4 > 0.5";
}

TEST(SiteRates, KeepsLittleOfWhomNobodyAnswers) {
  Here here;
  for (Round k = 1; k <= 1000; ++k) EXPECT_TRUE(here.hear(4, {k, 2, 1}));
  EXPECT_TRUE(here.hear(4, {1001, 2, 1}));
  Archive ar;
  here.rates.state(ar);
  EXPECT_LT(ar.take().size(), 1000u);
}

TEST(SiteRates, TimesThatCannotBeAreRefused) {
  Here here;
  EXPECT_FALSE(here.hear(2, {1, 3, 1})) << "of one site";
  EXPECT_FALSE(here.hear(2, {1, 6, 1})) << "nobody";
  EXPECT_FALSE(here.hear(2, {1, 4, -1}));
  EXPECT_FALSE(here.hear(2, {1, 4, std::numeric_limits<double>::quiet_NaN()}));
  EXPECT_TRUE(here.hear(2, {1, 4, 1}));
}

}  // namespace
}  // namespace longhaul::sync::shuffle
