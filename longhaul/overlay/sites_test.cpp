// Trees between sites become trees of nodes and pieces.
#include "longhaul/overlay/sites.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <numeric>
#include <set>

#include "longhaul/overlay/testing/places.h"

namespace longhaul::overlay {
namespace {

using Places = std::vector<std::uint32_t>;
using testing::team_of;

// Sites of two, one and three.
const Places kSiteOf = {0, 0, 1, 2, 2, 2};

TEST(Sites, AreNumberedAsTheyFirstAppear) {
  Place place;
  place.members = std::make_shared<Members>(Members{{"b"}, {"a"}, {"b"}, {"c"}});
  EXPECT_EQ(number_sites(place), (Places{0, 1, 0, 2}));
}

// Whoever is lost leaves no gap, and a site of which nobody lives is none.
TEST(Sites, GroupThoseWhoLive) {
  const SiteGroups all = group_by_site(team_of(6), kSiteOf);
  EXPECT_EQ(all.sites, (Places{0, 1, 2}));
  EXPECT_EQ(all.places, (std::vector<Places>{{0, 1}, {2}, {3, 4, 5}}));
  EXPECT_EQ(all.largest(), 3u);
  EXPECT_FALSE(all.server);
  const SiteGroups some = group_by_site(team_of(6, {0, 2, 4}), kSiteOf);
  EXPECT_EQ(some.sites, (Places{0, 2}));
  EXPECT_EQ(some.places, (std::vector<Places>{{0}, {1, 2}}));
  EXPECT_EQ(some.index_of(2), 1u);
  EXPECT_EQ(some.index_of(1), std::nullopt);
}

// A server that is no member stands behind the members, beside those of its site or alone.
TEST(Sites, GroupAServerWithItsSite) {
  GroupMembers team = team_of(6);
  team.server = 6;
  for (const auto& [site, index, groups] : {std::tuple(1u, 1u, 3u), std::tuple(7u, 3u, 4u)}) {
    Places site_of = kSiteOf;
    site_of.push_back(site);
    const SiteGroups with = group_by_site(team, site_of);
    ASSERT_TRUE(with.server);
    EXPECT_EQ(with.server->place, 6u);
    EXPECT_EQ(with.server->site, index);
    EXPECT_EQ(with.size(), groups);
    EXPECT_EQ(with.places[index], index == 1 ? Places{2} : Places{});
  }
  team.server = 4;
  EXPECT_FALSE(group_by_site(team, kSiteOf).server) << "one that is a member is one of them";
}

// Up 2 - 0 - 1, down 1 - 2 - 0: the two ways need not be alike.
const Tree kBetween{1, {1, 1, 0}, {2, 1, 1}};

TEST(Sites, OneMemberOfEachLeadsInTurn) {
  const SiteGroups groups = group_by_site(team_of(6), kSiteOf);
  const ReducePlan forest = over_sites({{kBetween}}, groups, 3, 3);
  ASSERT_EQ(forest.trees.size(), 3u);
  EXPECT_EQ(forest.trees[0].root, 2u);
  EXPECT_EQ(forest.trees[0].reduce_to, (Places{2, 0, 2, 0, 3, 3}));
  EXPECT_EQ(forest.trees[0].spread_from, (Places{3, 0, 2, 2, 3, 3}));
  EXPECT_EQ(forest.trees[1].reduce_to, (Places{1, 2, 2, 4, 1, 4}));
  EXPECT_EQ(forest.trees[2].reduce_to, (Places{2, 0, 2, 5, 5, 0}));
  EXPECT_EQ(forest.tree_of, (Places{0, 1, 2}));
  EXPECT_TRUE(check_plan(forest, 6, 6, 3));
}

// The server speaks for its site; the leader there stands below it, not the whole site.
TEST(Sites, AServerSpeaksForItsSite) {
  GroupMembers team = team_of(6);
  team.server = 6;
  Places site_of = kSiteOf;
  site_of.push_back(2);
  const Tree star{2, {2, 2, 2}, {2, 2, 2}};
  const ReducePlan beside = over_sites({{star}}, group_by_site(team, site_of), 3, 3);
  EXPECT_EQ(beside.trees[0].reduce_to, (Places{6, 0, 6, 6, 3, 3, 6}));
  EXPECT_EQ(beside.trees[1].reduce_to, (Places{1, 6, 6, 4, 6, 4, 6}));
  EXPECT_TRUE(check_plan(beside, 6, 7, 3));
  site_of.back() = 7;
  const Tree wider{3, {3, 3, 3, 3}, {3, 3, 3, 3}};
  const ReducePlan apart = over_sites({{wider}}, group_by_site(team, site_of), 1, 1);
  EXPECT_EQ(apart.trees[0].reduce_to, (Places{6, 0, 6, 6, 3, 3, 6}));
  EXPECT_TRUE(check_plan(apart, 6, 7, 1));
}

// Of few pieces every tree between sites has its share, and leaders differ already.
TEST(Sites, TurnsOfOneTreeLieApart) {
  const SiteGroups groups = group_by_site(team_of(4), {0, 0, 1, 1});
  const Tree first{0, {0, 0}, {0, 0}}, second{1, {1, 1}, {1, 1}};
  const ReducePlan forest = over_sites({{first, 0.5}, {second, 0.5}}, groups, 2, 2);
  ASSERT_EQ(forest.tree_of, (Places{0, 1}));
  EXPECT_EQ(forest.trees[0].root, 0u);
  EXPECT_EQ(forest.trees[1].root, 3u);
}

// Where a vector takes long beside a link's delay, pieces are next to each other in time.
TEST(Sites, PiecesLagByWhatALinkTakes) {
  const SiteGroups groups = group_by_site(team_of(3), {0, 1, 2});
  flow::Wan wan;
  for (int site = 0; site < 3; ++site)
    wan.sites.push_back({.name = {}, .up = 1e6, .down = 1e6, .lan = {}});
  wan.usual.delay_s = 0.1;
  const Partition grid(10'000'000, 1, 10'000);  // 55 s of 40 MB over three links
  const SitePlan plan = plan_between(wan, grid, false);
  EXPECT_NEAR(plan.lag, (0.1 + 2 * 0.0414) / 55.2, 1e-4);
  EXPECT_EQ(over_sites(plan, groups, grid.pieces()).lag, std::uint32_t(plan.lag * 1000));
  EXPECT_FALSE(over_sites(SitePlan{plan.trees}, groups, grid.pieces()).lag);
  EXPECT_EQ(plan_between(wan, Partition(1000, 1, 1000), false).lag, 1) << "delays are all there is";
}

// Between equal sites one circle will do, where that is said of them; not where nothing is.
TEST(Sites, GoRoundACircleWhereTheNetworkIsKnown) {
  const SiteGroups groups = group_by_site(team_of(4), {0, 1, 2, 3});
  flow::Wan wan;
  wan.sites.assign(4, {.name = {}, .up = 1e6, .down = 1e6, .lan = {}});
  wan.usual.delay_s = 2e-3;
  const auto pairs_used = [&](const flow::Wan* network) {
    std::set<flow::SitePair> pairs;
    for (const auto& [tree, share] :
         plan_trees(groups, network, Partition(1'000'000, 1, 1000)).trees)
      for (std::uint32_t site = 0; site < 4; ++site) {
        if (site == tree.root) continue;
        pairs.insert({site, tree.reduce_to[site]});
        pairs.insert({tree.spread_from[site], site});
      }
    return pairs.size();
  };
  EXPECT_EQ(pairs_used(&wan), 4u);
  EXPECT_EQ(pairs_used(nullptr), 12u);
}

RC_GTEST_PROP(Sites, EveryStretchHasPiecesOfAllTrees, ()) {
  auto shares = *rc::gen::nonEmpty(rc::gen::container<std::vector<double>>(
      rc::gen::map(rc::gen::inRange(1, 100), [](int x) { return double(x); })));
  const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
  for (double& share : shares) share /= sum;
  const auto pieces = *rc::gen::inRange<std::size_t>(0, 600);
  const auto trees = deal_pieces(pieces, shares);
  RC_ASSERT(trees.size() == pieces);
  std::vector<double> dealt(shares.size());
  for (std::size_t piece = 0; piece < pieces; ++piece) {
    ++dealt.at(trees[piece]);
    // Nobody gets more than a piece ahead of its share; so all together are not far behind.
    RC_ASSERT(dealt[trees[piece]] < shares[trees[piece]] * double(piece + 1) + 1 + 1e-6);
  }
}

TEST(Sites, PiecesAreNeitherLongNorMany) {
  EXPECT_EQ(piece_length(6'250'000, 400, 65536), 15625u);
  EXPECT_EQ(piece_length(61'000'000, 400, 65536), 65536u);
  EXPECT_EQ(piece_length(25'000, 400, 65536), 4096u);
  EXPECT_EQ(piece_length(25'000, 400, 1024), 1024u);
  EXPECT_EQ(piece_length(1, 400, 65536), 4096u);
}

}  // namespace
}  // namespace longhaul::overlay
