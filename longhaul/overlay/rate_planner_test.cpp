#include "longhaul/overlay/rate_planner.h"

#include <gtest/gtest.h>

#include "longhaul/base/testing/archived.h"
#include "longhaul/base/testing/result.h"
#include "longhaul/flow/bound.h"
#include "longhaul/overlay/testing/places.h"

namespace longhaul::overlay::forest {
namespace {

using testing::team_of;

const Partition kGrid(4'000'000, 1, 10'000);

// Four sites of `nodes` each, of which `rate_of` says what each pair of nodes has measured.
struct Scene {
  explicit Scene(std::uint32_t nodes = 1, RatePlannerConfig config = {},
                 std::shared_ptr<const flow::Wan> network = nullptr)
      : team(team_of(4 * nodes)), planner(config, std::move(network)) {
    for (Rank rank = 0; rank < 4 * nodes; ++rank) site_of.push_back(rank / nodes);
    groups = group_by_site(team, site_of);
    now = plan_between(blank_network(groups, nullptr), kGrid, false);
    report([](Rank, Rank) { return 1e6; });
  }
  void report(auto&& rate_of, std::uint32_t age = 0) {
    for (const Rank from : team.members) {
      RateReport one{round, {}, 0, 0, took};
      for (const Rank to : team.members)
        if (site_of[to] != site_of[from]) one.pairs.push_back({to, rate_of(from, to), age});
      reports[from] = one;
    }
  }
  std::optional<SitePlan> consider() {
    for (auto& [rank, report] : reports) report.round = round, report.took = took;
    auto plan = planner.consider(groups, site_of, reports, now, kGrid, {round++, since, &now});
    if (plan) now = *plan, since = round, planner.sent(since);
    return plan;
  }

  GroupMembers team;
  std::vector<std::uint32_t> site_of;
  SiteGroups groups;
  RatePlanner planner;
  RatePlanner::Reports reports;
  SitePlan now;
  Round round = 0, since = 0;
  double took = 0;  // of the rounds from here on, s
};

// How much of the vector goes from a site straight to another.
double load(const SitePlan& plan, std::uint32_t from, std::uint32_t to) {
  double sum = 0;
  for (const SiteTree& one : plan.trees) {
    if (one.tree.root != from && one.tree.reduce_to[from] == to) sum += one.share;
    if (one.tree.root != to && one.tree.spread_from[to] == from) sum += one.share;
  }
  return sum;
}

double root_share(const SitePlan& plan, std::uint32_t site) {
  double sum = 0;
  for (const SiteTree& one : plan.trees) sum += one.tree.root == site ? one.share : 0;
  return sum;
}

double thin(Rank from, Rank to) { return from == 0 && to == 1 ? 1e5 : 1e6; }

TEST(RatePlanner, F21_PlansAnewWhenRatesHaveChangedAndItPays) {
  Scene s;
  EXPECT_FALSE(s.consider()) << "equal links are what was planned for";
  s.report([](Rank from, Rank to) { return from == 0 && to == 1 ? 0.9e6 : 1e6; });
  EXPECT_FALSE(s.consider()) << "little has changed";
  s.report([](Rank, Rank) { return 3e6; });
  EXPECT_FALSE(s.consider()) << "all have: the plan stays the best";
  s.report(thin);
  const double before = load(s.now, 0, 1);
  const auto plan = good(s.consider());
  EXPECT_LT(load(*plan, 0, 1), 0.3 * before) << "the thin pair is gone round";
  EXPECT_LT(plan->lag, 1);
  EXPECT_FALSE(s.consider());
}

// What nodes of a site reach at one time is the site's, and a port's figures are those of all.
TEST(RatePlanner, NodesOfASiteAddUp) {
  Scene s(2);
  s.report([](Rank from, Rank to) { return from / 2 == 0 && to == 3 ? 1e4 : 1e6; });
  s.reports[0].up = 1;  // of one node: says nothing of the site
  const auto plan = s.consider();
  const double whole = plan ? load(*plan, 0, 1) : load(s.now, 0, 1);
  EXPECT_GT(whole, 0.1) << "half of the pair is there";
  EXPECT_GT(root_share(s.now, 0), 0.1) << "its port is not known";
}

TEST(RatePlanner, APortThatIsThinMakesALeaf) {
  Scene s;
  for (auto& [rank, report] : s.reports) report.up = report.down = rank == 2 ? 1e5 : 3e6;
  s.reports[2].down = 3e6;
  EXPECT_LT(root_share(*good(s.consider()), 2), 0.05);
}

TEST(RatePlanner, F22_NowAndThenAPairThatNobodyUsesIsTried) {
  Scene s(1, {.probe_rounds = 20});
  EXPECT_FALSE(s.consider());
  s.round = 19;
  for (PairRate& pair : s.reports[3].pairs) pair.age = 30 + pair.to;
  EXPECT_FALSE(s.consider()) << "not yet";
  const SitePlan before = s.now;
  const auto tried = good(s.consider());
  EXPECT_EQ(tried->trees.size(), before.trees.size() + 1);
  EXPECT_GT(load(*tried, 3, 2), load(before, 3, 2)) << "the one not heard of for longest";
  EXPECT_FALSE(s.consider()) << "it is given time";
  s.report([](Rank, Rank) { return 1e6; });
  const auto back = s.consider();
  ASSERT_TRUE(back) << "it was measured";
  EXPECT_EQ(back->trees.size(), before.trees.size());
  s.round = 100;
  s.report([](Rank, Rank) { return 1e6; }, 5);
  EXPECT_FALSE(s.consider()) << "all were heard of";
  Scene never(1, {.probe_rounds = 0});
  never.round = 100;
  never.report([](Rank, Rank) { return 1e6; }, 90);
  EXPECT_FALSE(never.consider());
}

// Trees they stay, shares of 1 in all, and the pair carries more.
TEST(RatePlanner, F23_WhatTriesAPairIsAPlan) {
  const std::vector<SiteTree> rows = {{{0, {0, 0, 1, 2}, {0, 0, 1, 2}}, 0.6},
                                      {{3, {1, 2, 3, 3}, {1, 2, 3, 3}}, 0.4}};
  for (std::uint32_t from = 0; from < 4; ++from)
    for (std::uint32_t to = 0; to < 4; ++to) {
      if (from == to) continue;
      const SitePlan before{rows, 1}, tried = with_probe(before, from, to);
      double sum = 0;
      ReducePlan forest;
      for (const SiteTree& one : tried.trees) {
        sum += one.share;
        forest.trees.push_back(one.tree);
      }
      EXPECT_TRUE(check_plan(forest, 4, 4, 0)) << from << " to " << to;
      EXPECT_DOUBLE_EQ(sum, 1);
      EXPECT_EQ(tried.trees.size(), 3u);
      EXPECT_EQ(tried.trees[2].tree.reduce_to[from], to);
    }
}

// A pair of which nothing is known is no better than the worst that is, and may be used.
TEST(RatePlanner, WhatIsNotKnownIsTakenForTheSlowest) {
  Scene s;
  s.report(thin);
  std::erase_if(s.reports[2].pairs, [](const PairRate& pair) { return pair.to == 3; });
  EXPECT_LT(load(*good(s.consider()), 2, 3), 0.15);
}

// Where the job says what a pair gets beside the others, that is better than to shun it.
TEST(RatePlanner, F33_WhatIsNotMeasuredCountsAsTheJobHasIt) {
  flow::Wan wan;
  wan.sites.resize(4);
  for (auto& site : wan.sites) site.up = site.down = 3e6 * flow::kIpPerByte;
  Scene told(1, {}, std::make_shared<flow::Wan>(wan)), untold;
  for (Scene* s : {&told, &untold}) {
    s->report(thin);
    std::erase_if(s->reports[2].pairs, [](const PairRate& pair) { return pair.to == 3; });
  }
  const auto with = told.consider(), without = untold.consider();
  ASSERT_TRUE(with && without);
  EXPECT_LT(load(*without, 2, 3), 0.15);
  EXPECT_GT(load(*with, 2, 3), 0.3);
}

TEST(RatePlanner, F33_APortIsWhatItCarriedAtLeastAndTwiceThatAtMost) {
  flow::Wan wan;
  wan.sites.resize(4);
  for (auto& site : wan.sites) site.up = site.down = 1e9;
  wan.sites[2].up = 1e5;
  Scene s(1, {}, std::make_shared<flow::Wan>(wan));
  for (auto& [rank, report] : s.reports) report.up = report.down = 3e6;
  EXPECT_FALSE(s.consider()) << "it carried more than the job says";
  s.report([](Rank from, Rank) { return from == 1 ? 1.3e6 : 1e6; });
  for (auto& [rank, report] : s.reports) report.up = report.down = rank == 1 ? 1e5 : 3e6;
  EXPECT_LT(root_share(*good(s.consider()), 1), 0.1) << "the job promises more than was seen";
}

// A port's two directions are believed apart.
TEST(RatePlanner, F33_ADownlinkIsBelievedToo) {
  flow::Wan thin, wide;
  thin.sites.resize(4), wide.sites.resize(4);
  for (flow::Wan* wan : {&thin, &wide})
    for (auto& site : wan->sites) site.up = site.down = 1e9;
  thin.sites[2].down = 1.1e6 * flow::kIpPerByte;
  Scene narrow(1, {}, std::make_shared<flow::Wan>(thin)),
      broad(1, {}, std::make_shared<flow::Wan>(wide));
  double share[2] = {};
  for (Scene* s : {&narrow, &broad}) {
    for (auto& [rank, report] : s->reports) report.up = 3e6, report.down = rank == 2 ? 1e6 : 3e6;
    const auto plan = s->consider();
    share[s == &broad] = root_share(plan ? *plan : s->now, 2);
  }
  EXPECT_LT(share[0], 0.7 * share[1]) << "twice what it carried is not there";
}

// Rates that misled: the plan by them is in force for a round, then the one before it again.
struct Misled : Scene {
  Misled() {
    report([](Rank, Rank) { return 1e6; });
    took = 1;
    EXPECT_FALSE(consider());
    report(thin);
    before = load(now, 0, 1);
    EXPECT_TRUE(consider());
    EXPECT_LT(load(now, 0, 1), before);
  }
  double before = 0;
};

TEST(RatePlanner, F32_APlanThatIsWorseIsTakenBack) {
  Misled s;
  s.took = 1.5;
  ASSERT_TRUE(s.consider());
  EXPECT_EQ(load(s.now, 0, 1), s.before);
  s.took = 1;
  const Round back = s.round;
  s.report([](Rank from, Rank to) { return from == 2 && to == 1 ? 1e5 : 1e6; });
  while (!s.consider()) ASSERT_LT(s.round, back + 30);
  EXPECT_EQ(s.round - back, 20u) << "no other for a while";
  s.took = 1.5;
  ASSERT_TRUE(s.consider());
  s.took = 1;
  const Round again = s.round;
  s.report(thin);
  while (!s.consider()) ASSERT_LT(s.round, again + 50);
  EXPECT_EQ(s.round - again, 40u) << "twice as long";
}

TEST(RatePlanner, F32_ANewTeamTriesNoPlanOfTheOneBefore) {
  Misled s;
  s.planner.new_team();
  s.took = 1.5;
  EXPECT_FALSE(s.consider());
}

TEST(RatePlanner, F32_APlanThatIsBetterStays) {
  Misled s;
  s.took = 0.8;
  const double planned = load(s.now, 0, 1);
  EXPECT_FALSE(s.consider());
  EXPECT_EQ(load(s.now, 0, 1), planned);
  s.report([](Rank from, Rank to) { return from == 2 && to == 1 ? 1e5 : 1e6; });
  EXPECT_TRUE(s.consider()) << "the next may come at once";
}

// The network changed while a plan was tried: what comes back is no better, and the next is made.
TEST(RatePlanner, F32_WhatIsTakenBackIsOnTrialToo) {
  Misled s;
  s.took = 1.5;
  ASSERT_TRUE(s.consider());
  s.report([](Rank from, Rank to) { return from == 2 && to == 1 ? 1e5 : 1e6; });
  s.took = 2;
  EXPECT_TRUE(s.consider()) << "no pause";
}

// Two plans on their way: what comes back is the quickest of those before the last.
TEST(RatePlanner, F32_TheQuickestComesBack) {
  Misled s;
  const SitePlan first = s.now;
  s.report([](Rank from, Rank to) { return from == 2 && to == 1 ? 1e5 : 1e6; });
  const Round since = s.since;
  s.since = 0;  // the first is not yet in force
  ASSERT_TRUE(s.consider());
  const SitePlan second = s.now;
  s.now = first;
  s.since = since;
  s.took = 0.5;
  EXPECT_FALSE(s.consider());
  s.now = second;
  s.since = since + 1;
  s.took = 0.8;
  const auto back = good(s.consider());
  EXPECT_EQ(load(*back, 0, 1), load(first, 0, 1));
  EXPECT_EQ(load(*back, 2, 1), load(first, 2, 1));
}

// Rounds that have become slower say that the network has changed: the pause ends.
TEST(RatePlanner, F32_APauseEndsWhereRoundsBecomeSlow) {
  Misled s;
  s.took = 1.5;
  ASSERT_TRUE(s.consider());
  s.took = 1;
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(s.consider());
  s.report([](Rank from, Rank to) { return from == 2 && to == 1 ? 1e5 : 1e6; });
  s.took = 1.5;
  EXPECT_FALSE(s.consider()) << "one round may be held up";
  EXPECT_TRUE(s.consider());
}

// Reports of two rounds say of neither how long it took; nor is a plan tried that was not sent.
TEST(RatePlanner, F32_WithoutTimesAPlanStays) {
  Misled mixed;
  mixed.took = 1.5;
  for (auto& [rank, report] : mixed.reports)
    report.round = mixed.round + (rank == 2), report.took = 1.5;
  EXPECT_FALSE(mixed.planner.consider(mixed.groups, mixed.site_of, mixed.reports, mixed.now, kGrid,
                                      {mixed.round++, mixed.since, &mixed.now}));
  ASSERT_TRUE(mixed.consider()) << "the next round tells";
  Scene unsent;
  unsent.took = 1;
  EXPECT_FALSE(unsent.consider());
  unsent.report(thin);
  EXPECT_TRUE(unsent.planner.consider(unsent.groups, unsent.site_of, unsent.reports, unsent.now,
                                      kGrid, {unsent.round++, unsent.since, &unsent.now}));
  unsent.planner.withdraw(unsent.now);
  unsent.took = 1.5;
  EXPECT_FALSE(unsent.consider());
}

TEST(RatePlanner, SavingAndLoadingEqualsGoingOn) {
  Scene s(1, {.probe_rounds = 5});
  s.report(thin);
  ASSERT_TRUE(s.consider());
  s.took = 1;
  EXPECT_FALSE(s.consider()) << "nothing to hold it against: it stays";
  s.report(thin, 30);
  s.round = 50;
  Scene other(1, {.probe_rounds = 5});
  ASSERT_TRUE(longhaul::testing::copy_state(s.planner, other.planner));
  other.report(thin, 30);
  other.round = 50;
  other.since = s.since;
  other.took = 1;
  const auto plain = s.consider(), loaded = other.consider();
  ASSERT_TRUE(plain && loaded);
  EXPECT_EQ(plain->trees.size(), loaded->trees.size());
}

}  // namespace
}  // namespace longhaul::overlay::forest
