// Plans become trees of members and pieces. Whole exchanges along them: agreed_test.cpp.
//
// Invariants of forest, also with learned rates, and the tests of them (Arborescence, ForestPlan,
// Chains, PairShares, PlanTime and LinkWindows in longhaul/flow, the others in this folder); pieces
// and members: here: agreed_test.cpp:
//   F1   the cheapest tree is found: Arborescence.F1_NoTreeIsCheaper
//   F2   a flattened tree is a tree and costs no more: Arborescence.F2_*
//   F3   equal sites reach the bound: ForestPlan.F3_EqualSitesReachTheBound
//   F4   whole trees, shares that add up to 1, no overloaded link:
//        ForestPlan.F4_ThePlanKeepsWithinCapacity
//   F5   within 3 % of `tree_s`, random networks and cities: ForestPlan.F5_*
//   F6   a short vector takes short paths: ForestPlan.F6_AShortVectorTakesShortWays
//   F7   5 trees a site at most; with fair shares n (n + 1), in 60 networks 85 (n = 15):
//        ForestPlan.F7_FewTreesDo
//   F8   the same numbers give the same plan: ForestPlan.F8_TheSameNumbersGiveTheSamePlan
//   F9   unlimited links do not bind: ForestPlan.F9_*
//   F10  pairs fill: ForestPlan.F10_*
//   F11  more sites than the programme of `tree_s` can solve: ForestPlan.F11_ManySites
//   F12  only transfers without a pause count: PairRates.F12_*
//   F13  noise is averaged, a step replaces the value: PairRates.F13_*
//   F14  sharing a full port lowers no pair: PairRates.F14_*
//   F15  a port's rate is the most that it carried: PairRates.F15_*
//   F16  all have a plan before any node starts it: PlanAgreement.F16_*
//   F17  a plan is in force from its first round, the previous plan until then: PlanAgreement.F17_*
//   F18  different plans to different nodes are found: PlanAgreement.F18_*
//   F19  untimely plans and acknowledgements are refused: PlanAgreement.F19_*
//   F20  an invalid plan is refused: PlanAgreement.F20_*
//   F21  a new plan when rates have changed and it pays: RatePlanner.F21_*
//   F22  unused pairs are tested: RatePlanner.F22_*
//   F23  a plan that tests a pair is valid: RatePlanner.F23_*
//   F24  rounds continue while plans change, 1 to 8 nodes: Replanner.F24_*
//   F25  any node can die at any event of a plan: Replanner.F25_*
//   F26  saving and loading after every event changes nothing: Replanner.F26_*
//   F27  false messages are refused or harmless: Replanner.F27_*
//   F28  one circle where it is as fast: ForestPlan.F28_*, Chains.*
//   F29  connections with fair shares can keep to a plan: ForestPlan.F29_*, PairShares.*,
//        PlanTime.*
//   F30  all use the planner's first plan: PlanAgreement.F30_*, Replanner.F30_*
//   F31  one or three rounds show a worse plan; a single delay does not count: PlanTrial.F31_*
//   F32  a worse plan is taken back, and others wait, unless rounds become slow: RatePlanner.F32_*
//   F33  an unmeasured link counts as configured: RatePlanner.F33_*
//   F34  links that begin late, or end early, get less: ForestPlan.F34_*, LinkWindows.*
//   F35  means on their last link go last: PlanAttempt.MeansOnTheirLastLink*
#include "longhaul/overlay/forest.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "longhaul/base/testing/effort.h"
#include "longhaul/overlay/testing/places.h"

namespace longhaul::overlay {
namespace {

using testing::place_of;
using testing::team_of;

// Site i is "s<i>". Rates fall from site to site, one pair is thin.
OverlayParts slope(std::uint32_t sites) {
  flow::Wan wan;
  for (std::uint32_t i = 0; i < sites; ++i) {
    const double rate = 2e7 / (1 + i);
    wan.sites.push_back({.name = "s" + std::to_string(i), .up = rate, .down = rate, .lan = {}});
  }
  wan.usual.delay_s = 0.02;
  if (sites > 1) wan.pairs[{0, 1}] = {.rate = 1e5, .delay_s = 0.05};
  OverlayParts parts;
  parts.network = std::make_shared<flow::Wan>(wan);
  return parts;
}

bool equal(const ReducePlan& a, const ReducePlan& b) {
  bool same = a.tree_of == b.tree_of && a.trees.size() == b.trees.size();
  for (std::size_t i = 0; same && i < a.trees.size(); ++i)
    same = a.trees[i].root == b.trees[i].root && a.trees[i].reduce_to == b.trees[i].reduce_to &&
           a.trees[i].spread_from == b.trees[i].spread_from;
  return same;
}

TEST(PlannedForest, PiecesAreAsManyAsWished) {
  const PlannedForest forest({}, {}, place_of(3, 1));
  EXPECT_EQ(forest.cut(25'000'000, 8, 65536).range(0).length, 15625u);
}

// The same at all nodes, whoever is lost, and trees all of them.
TEST(PlannedForest, AllNodesHaveTheSameTreesOfThoseWhoLive) {
  for (const std::uint32_t sites : {1u, 2u, 3u, 6u})
    for (const std::uint32_t nodes : {1u, 3u}) {
      const std::uint32_t size = sites * nodes;
      for (Rank lost = 0; lost <= size; ++lost) {  // the last: nobody
        if (size == 1 && lost == 0) continue;
        if (longhaul::testing::kGate && size > 5 && lost % 6 != 0) continue;
        const Partition grid(100'000, 1, 1000);
        std::optional<ReducePlan> first;
        for (Rank self : {Rank{0}, size - 1}) {
          const Place place = place_of(sites, nodes, self);
          const GroupMembers team = team_of(size, {lost}, self);
          const auto forest = PlannedForest({}, slope(sites), place).plan(grid, team);
          ASSERT_TRUE(forest);
          const auto living = std::uint32_t(team.members.size());
          EXPECT_TRUE(check_plan(*forest, living, living, grid.pieces()));
          if (!first) first = forest;
          EXPECT_TRUE(equal(*first, *forest));
        }
      }
    }
}

// Of a tree's links between sites there are as many as sites less one, each way.
TEST(PlannedForest, OneOfASiteSpeaksForIt) {
  const std::uint32_t sites = 4, nodes = 3;
  const Partition grid(400'000, 1, 1000);
  const auto forest =
      PlannedForest({}, slope(sites), place_of(sites, nodes)).plan(grid, team_of(12));
  std::set<std::uint32_t> roots;
  for (const Tree& tree : forest->trees) {
    roots.insert(tree.root % nodes);
    std::uint32_t up = 0, down = 0;
    for (std::uint32_t place = 0; place < 12; ++place) {
      up += place / nodes != tree.reduce_to[place] / nodes;
      down += place / nodes != tree.spread_from[place] / nodes;
    }
    EXPECT_EQ(up, sites - 1);
    EXPECT_EQ(down, sites - 1);
  }
  EXPECT_GT(roots.size(), 1u) << "they take turns";
}

// A thin pair is gone round, and who has thin links has one neighbour: a leaf, or the root of one.
TEST(PlannedForest, TheNetworkDecides) {
  const Partition grid(1'000'000, 1, 1000);
  const auto forest = PlannedForest({}, slope(4), place_of(4, 1)).plan(grid, team_of(4));
  std::size_t thin = 0, sent = 0, received = 0;  // by the last site
  for (const std::uint32_t tree : forest->tree_of) {
    thin += forest->trees[tree].reduce_to[0] == 1 || forest->trees[tree].spread_from[1] == 0;
    const auto& up = forest->trees[tree].reduce_to;
    const auto& down = forest->trees[tree].spread_from;
    const bool root = forest->trees[tree].root == 3;
    sent += std::size_t(std::count(down.begin(), down.end(), 3u)) - root + !root;
    received += std::size_t(std::count(up.begin(), up.end(), 3u)) - root + !root;
  }
  EXPECT_LE(thin, grid.pieces() / 10);
  EXPECT_LE(sent, grid.pieces() * 12 / 10);
  EXPECT_LE(received, grid.pieces() * 12 / 10);
  // Nothing is known: stars, one of each.
  const auto alike = PlannedForest({}, {}, place_of(4, 1)).plan(grid, team_of(4));
  EXPECT_EQ(alike->trees.size(), 4u);
}

}  // namespace
}  // namespace longhaul::overlay
