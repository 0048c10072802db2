// Plans become trees of members and pieces. Whole exchanges along them: agreed_test.cpp.
#include "longhaul/overlay/forest.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

namespace longhaul::overlay {
namespace {

// Site i is "s<i>"; `nodes` workers at each. Rates fall from site to site, one pair is thin.
std::shared_ptr<const flow::Wan> slope(std::uint32_t sites) {
  flow::Wan wan;
  for (std::uint32_t i = 0; i < sites; ++i) {
    const double rate = 2e7 / (1 + i);
    wan.sites.push_back({.name = "s" + std::to_string(i), .up = rate, .down = rate, .lan = {}});
  }
  wan.usual.delay_s = 0.02;
  if (sites > 1) wan.pairs[{0, 1}] = {.rate = 1e5, .delay_s = 0.05};
  return std::make_shared<flow::Wan>(wan);
}

Place place_of(std::uint32_t sites, std::uint32_t nodes) {
  Members members;
  for (std::uint32_t i = 0; i < sites; ++i)
    for (std::uint32_t k = 0; k < nodes; ++k)
      members.push_back({.site = "s" + std::to_string(i), .rank_in_site = k});
  Place place;
  place.members = std::make_shared<const Members>(std::move(members));
  return place;
}

Team team_of(std::uint32_t size, std::vector<Rank> lost = {}, Rank self = 0) {
  Team team;
  team.self = self;
  for (Rank rank = 0; rank < size; ++rank) {
    team.workers.push_back(rank);
    if (std::find(lost.begin(), lost.end(), rank) == lost.end()) team.members.push_back(rank);
  }
  return team;
}

bool equal(const Forest& a, const Forest& b) {
  bool same = a.tree_of == b.tree_of && a.trees.size() == b.trees.size();
  for (std::size_t i = 0; same && i < a.trees.size(); ++i)
    same = a.trees[i].root == b.trees[i].root && a.trees[i].reduce_to == b.trees[i].reduce_to &&
           a.trees[i].spread_from == b.trees[i].spread_from;
  return same;
}

// mutant: longhaul/overlay/forest.cpp
//   - *most -= 1;
//   + *most = 0;
RC_GTEST_PROP(PlannedForest, EveryStretchHasPiecesOfAllTrees, ()) {
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

// mutant: longhaul/overlay/forest.cpp
//   - return std::min(chunk, std::max(wanted, kShortest));
//   + return std::max(wanted, kShortest);
// mutant: longhaul/overlay/forest.cpp
//   - return std::min(chunk, std::max(wanted, kShortest));
//   + return std::min(chunk, wanted);
TEST(PlannedForest, PiecesAreNeitherLongNorMany) {
  const PlannedForest forest({}, nullptr, place_of(3, 1));
  EXPECT_EQ(forest.longest(6'250'000, 65536), 15625u);
  EXPECT_EQ(forest.longest(61'000'000, 65536), 65536u);
  EXPECT_EQ(forest.longest(25'000, 65536), 4096u);
  EXPECT_EQ(forest.longest(25'000, 1024), 1024u);
  EXPECT_EQ(forest.longest(1, 65536), 4096u);
}

// The same at all nodes, whoever is lost, and trees all of them.
// mutant: longhaul/overlay/forest.cpp
//   - tree.reduce_to[speaker(site)] = speaker(planned.reduce_to[site]);
//   +
TEST(PlannedForest, AllNodesHaveTheSameTreesOfThoseWhoLive) {
  for (const std::uint32_t sites : {1u, 2u, 3u, 6u})
    for (const std::uint32_t nodes : {1u, 3u}) {
      const std::uint32_t size = sites * nodes;
      for (Rank lost = 0; lost <= size; ++lost) {  // the last: nobody
        if (size == 1 && lost == 0) continue;
        const Grid grid(100'000, 1, 1000);
        std::optional<Forest> first;
        for (Rank self : {Rank{0}, size - 1}) {
          Place place = place_of(sites, nodes);
          place.self = self;
          const Team team = team_of(size, {lost}, self);
          const auto forest = PlannedForest({}, slope(sites), place).forest(grid, team);
          ASSERT_TRUE(forest);
          const auto living = std::uint32_t(team.members.size());
          EXPECT_TRUE(check_forest(*forest, living, living, grid.pieces()));
          if (!first) first = forest;
          EXPECT_TRUE(equal(*first, *forest));
        }
      }
    }
}

// Of a tree's links between sites there are as many as sites less one, each way.
// mutant: longhaul/overlay/forest.cpp
//   - tree.reduce_to[place] = tree.spread_from[place] = speaker(site);
//   + tree.reduce_to[place] = tree.spread_from[place] = speaker(planned.root);
TEST(PlannedForest, OneOfASiteSpeaksForIt) {
  const std::uint32_t sites = 4, nodes = 3;
  const Grid grid(400'000, 1, 1000);
  const auto forest =
      PlannedForest({}, slope(sites), place_of(sites, nodes)).forest(grid, team_of(12));
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

// A thin pair is gone round, and who has thin links is a leaf.
// mutant: longhaul/overlay/forest.cpp
//   - if (whole) return flow::among(*whole, crew.sites);
//   + if (whole) return network_of(crew, nullptr);
TEST(PlannedForest, TheNetworkDecides) {
  const Grid grid(1'000'000, 1, 1000);
  const auto forest = PlannedForest({}, slope(4), place_of(4, 1)).forest(grid, team_of(4));
  std::size_t thin = 0, last = 0;
  for (const std::uint32_t tree : forest->tree_of) {
    thin += forest->trees[tree].reduce_to[0] == 1 || forest->trees[tree].spread_from[1] == 0;
    last += forest->trees[tree].root == 3;
  }
  EXPECT_LE(thin, grid.pieces() / 10);
  EXPECT_LE(last, grid.pieces() / 10);
  // Nothing is known: stars, one of each.
  const auto alike = PlannedForest({}, nullptr, place_of(4, 1)).forest(grid, team_of(4));
  EXPECT_EQ(alike->trees.size(), 4u);
}

}  // namespace
}  // namespace longhaul::overlay
