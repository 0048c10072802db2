// Plans become trees of members and pieces. Whole exchanges along them: agreed_test.cpp.
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

bool equal(const Forest& a, const Forest& b) {
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
        std::optional<Forest> first;
        for (Rank self : {Rank{0}, size - 1}) {
          const Place place = place_of(sites, nodes, self);
          const GroupMembers team = team_of(size, {lost}, self);
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
TEST(PlannedForest, OneOfASiteSpeaksForIt) {
  const std::uint32_t sites = 4, nodes = 3;
  const Partition grid(400'000, 1, 1000);
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

// A thin pair is gone round, and who has thin links has one neighbour: a leaf, or the root of one.
TEST(PlannedForest, TheNetworkDecides) {
  const Partition grid(1'000'000, 1, 1000);
  const auto forest = PlannedForest({}, slope(4), place_of(4, 1)).forest(grid, team_of(4));
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
  const auto alike = PlannedForest({}, {}, place_of(4, 1)).forest(grid, team_of(4));
  EXPECT_EQ(alike->trees.size(), 4u);
}

}  // namespace
}  // namespace longhaul::overlay
