// Trees as values. Whole exchanges along them: agreed_test.cpp.
#include "longhaul/overlay/tree.h"

#include <algorithm>
#include <numeric>

#include <gmock/gmock.h>

#include "longhaul/base/rng.h"
#include "longhaul/overlay/plan.h"
#include "longhaul/overlay/testing/places.h"

namespace longhaul::overlay {
namespace {

using testing::tree_of_five;
using Places = std::vector<std::uint32_t>;

std::string wrong(const ReducePlan& forest, std::uint32_t members, std::uint32_t nodes,
                  std::size_t pieces) {
  const Status good = check_plan(forest, members, nodes, pieces);
  return good ? "" : good.error().what;
}

// Plans may come from a peer: whatever is no tree is named, and nothing runs for ever.
TEST(ReducePlan, WhatIsNoTreeIsRefused) {
  const ReducePlan good{{tree_of_five()}, {0, 0, 0}};
  EXPECT_EQ(wrong(good, 5, 5, 3), "");
  const auto with = [&](auto change) {
    ReducePlan forest = good;
    change(forest);
    return wrong(forest, 5, 5, 3);
  };
  const auto has = [](const char* text) { return ::testing::HasSubstr(text); };
  EXPECT_THAT(with([](ReducePlan& f) { f.trees[0].root = 5; }), has("its root is nobody"));
  EXPECT_THAT(with([](ReducePlan& f) { f.trees[0].reduce_to.pop_back(); }),
              has("of 4 nodes, not of 5"));
  EXPECT_THAT(with([](ReducePlan& f) { f.trees[0].spread_from.push_back(2); }), has("of 6 nodes"));
  EXPECT_THAT(with([](ReducePlan& f) { f.trees[0].reduce_to[1] = 5; }), has("place 5 is nobody's"));
  EXPECT_THAT(with([](ReducePlan& f) { f.trees[0].reduce_to[2] = 0; }), has("root stands below"));
  EXPECT_THAT(with([](ReducePlan& f) { f.trees[0].reduce_to[3] = 3; }),
              has("place 3 is on no way"));
  EXPECT_THAT(with([](ReducePlan& f) { f.trees[0].reduce_to[0] = 1; }),
              has("place 0 is on no way"));
  EXPECT_THAT(with([](ReducePlan& f) { f.trees[0].spread_from[4] = 1; }),
              has("place 0 is on no way"));
  EXPECT_THAT(with([](ReducePlan& f) { f.tree_of[1] = 1; }), has("a piece without a tree"));
  EXPECT_THAT(with([](ReducePlan& f) { f.tree_of.pop_back(); }), has("another number of pieces"));
  EXPECT_THAT(with([](ReducePlan& f) { f.trees.clear(); }), has("a piece without a tree"));
}

// It gets no means that it could pass on.
TEST(ReducePlan, AServerThatIsNoMemberIsARootAndNothingElse) {
  EXPECT_EQ(wrong({{{2, {2, 2, 2}, {2, 2, 2}}}, {0}}, 2, 3, 1), "");
  EXPECT_THAT(wrong({{{0, {0, 2, 0}, {0, 2, 0}}}, {0}}, 2, 3, 1), ::testing::HasSubstr("server"));
}

TEST(Tree, ABranchIsTheTreeAsOneNodeSeesIt) {
  const Tree tree = tree_of_five();
  EXPECT_EQ(hops_of(tree), 2u + 4u);

  const TreeNode root = branch_of(tree, 2);
  EXPECT_EQ(root.reduce_to, 2u);
  ASSERT_EQ(root.upstream_children.size(), 2u);
  EXPECT_EQ(root.upstream_children[0].place, 0u);
  EXPECT_EQ(root.upstream_children[0].below, (Places{0, 1, 3}));
  EXPECT_EQ(root.upstream_children[1].place, 4u);
  EXPECT_EQ(root.upstream_children[1].below, (Places{4}));
  EXPECT_EQ(root.below, (Places{0, 1, 2, 3, 4}));
  ASSERT_EQ(root.downstream_children.size(), 1u);
  EXPECT_EQ(root.downstream_children[0].place, 4u);
  EXPECT_EQ(root.downstream_children[0].way, 4u) << "to 4, 3, 0 and 1";
  EXPECT_EQ(root.way, 4u);
  EXPECT_TRUE(root.above.empty());

  const TreeNode leaf = branch_of(tree, 3);
  EXPECT_EQ(leaf.reduce_to, 0u);
  EXPECT_EQ(leaf.spread_from, 4u);
  EXPECT_TRUE(leaf.upstream_children.empty());
  EXPECT_EQ(leaf.below, (Places{3}));
  EXPECT_EQ(leaf.above, (Places{0, 2}));
  ASSERT_EQ(leaf.downstream_children.size(), 1u);
  EXPECT_EQ(leaf.downstream_children[0].way, 2u);
  EXPECT_EQ(leaf.way, 2u + 4u);
}

// What the attempt leans on, for trees at random: everybody but the root is in one bough of whom it
// sends to and heir of whom it hears from; what a child says of whom it speaks for is what its
// parent thinks; and the farther something has to go, the longer its way.
TEST(Tree, BranchesOfOneTreeFitTogether) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed, {Purpose::test});
    const auto nodes = std::uint32_t(1 + random.below(12));
    const auto draw = [&](std::uint32_t root) {
      Places order(nodes), towards(nodes, root);
      std::iota(order.begin(), order.end(), 0u);
      random.shuffle(std::span(order));
      std::swap(*std::find(order.begin(), order.end(), root), order[0]);
      for (std::uint32_t i = 1; i < nodes; ++i) towards[order[i]] = order[random.below(i)];
      return towards;
    };
    const auto root = std::uint32_t(random.below(nodes));
    const Tree tree{root, draw(root), draw(root)};
    ASSERT_EQ(wrong({{tree}, {}}, nodes, nodes, 0), "");
    for (std::uint32_t place = 0; place < nodes; ++place) {
      const TreeNode own = branch_of(tree, place);
      EXPECT_LE(own.way, hops_of(tree));
      if (place == root) continue;
      const TreeNode up = branch_of(tree, own.reduce_to), down = branch_of(tree, own.spread_from);
      const auto child = std::find_if(up.upstream_children.begin(), up.upstream_children.end(),
                                      [&](const UpstreamChild& b) { return b.place == place; });
      ASSERT_NE(child, up.upstream_children.end());
      EXPECT_EQ(child->below, own.below);
      EXPECT_EQ(own.way, up.way + 1);
      const auto receiver =
          std::find_if(down.downstream_children.begin(), down.downstream_children.end(),
                       [&](const DownstreamChild& h) { return h.place == place; });
      ASSERT_NE(receiver, down.downstream_children.end());
      for (const DownstreamChild& next : own.downstream_children)
        EXPECT_LT(next.way, receiver->way);
    }
  }
}

// Trees without pieces count for nothing; shares go to everybody above in any other, once.
TEST(TreeSet, HoldsWhatThePiecesUse) {
  const Tree star{0, {0, 0, 0, 0, 0}, {0, 0, 0, 0, 0}}, idle{1, {1, 1, 1, 1, 1}, {1, 1, 1, 1, 1}};
  const TreeSet tree_set({{tree_of_five(), star, idle}, {0, 1, 1, 0}}, 3);
  EXPECT_EQ(tree_set.trees(), 3u);
  EXPECT_EQ(Places(tree_set.pieces(0).begin(), tree_set.pieces(0).end()), (Places{0, 3}));
  EXPECT_EQ(Places(tree_set.pieces(1).begin(), tree_set.pieces(1).end()), (Places{1, 2}));
  EXPECT_TRUE(tree_set.pieces(2).empty());
  EXPECT_EQ(tree_set.tree_of(2), 1u);
  EXPECT_EQ(tree_set.hops(), 6u);
  EXPECT_EQ(Places(tree_set.above().begin(), tree_set.above().end()), (Places{0, 2}));
}

// Places of members are those of their ranks; behind them a server that is none.
TEST(TreeSet, PlacesAreThoseOfTheTeam) {
  GroupMembers team{.self = 4, .epoch = 0, .workers = {0, 1, 4}, .members = {1, 4}, .server = 9};
  EXPECT_EQ(team.nodes(), 3u);
  EXPECT_EQ(team.node(1), 4u);
  EXPECT_EQ(team.node(2), 9u);
  EXPECT_EQ(team.place_of(9), 2u);
  EXPECT_EQ(team.place_of(0), std::nullopt);
  team.server = 1;
  EXPECT_EQ(team.nodes(), 2u);
  EXPECT_EQ(team.place_of(1), 0u);
  team.server.reset();
  EXPECT_EQ(team.nodes(), 2u);
  EXPECT_EQ(team.place_of(9), std::nullopt);
}

TEST(TreeSet, APieceBelongsToTheRootOfItsTree) {
  const GroupMembers team{
      .self = 7, .epoch = 0, .workers = {2, 5, 7}, .members = {2, 5, 7}, .server = {}};
  const Partition grid(40, 1, 10);
  const Tree first{1, {1, 1, 1}, {1, 1, 1}}, second{2, {2, 2, 2}, {2, 2, 2}};
  const Plan plan(grid, team, {{first, second}, {1, 0, 1, 1}});
  EXPECT_EQ(plan.root(), 7u);
  EXPECT_EQ(plan.owner(1), 5u);
  EXPECT_EQ(plan.pieces_of(7).size(), 3u);
  EXPECT_EQ(plan.tree_set().branch(0).reduce_to, 1u);
}

// What a topology of ours makes is right, or the program is wrong.
TEST(GroveDeathTest, APlanTakesNoForestOfOthers) {
  const GroupMembers team{
      .self = 0, .epoch = 0, .workers = {0, 1}, .members = {0, 1}, .server = {}};
  const Partition grid(40, 1, 10);
  EXPECT_DEATH(Plan(grid, team, {{{0, {0, 0}, {0, 0}}}, {0, 0}}), "good");
}

}  // namespace
}  // namespace longhaul::overlay
