// One attempt along trees, fed by hand, and whole forests of them.
#include "longhaul/overlay/plan_attempt.h"

#include <algorithm>
#include <numeric>

#include <gtest/gtest.h>

#include "longhaul/base/rng.h"
#include "longhaul/base/testing/effort.h"
#include "longhaul/overlay/testing/paper_node.h"
#include "longhaul/overlay/testing/places.h"

namespace longhaul::overlay {
namespace {

using testing::Table;
using testing::tree_of_five;
using Floats = std::vector<float>;
using Ranks = std::vector<Rank>;
using Places = std::vector<std::uint32_t>;

// Ranks 10 to 14 by place.
const Ranks kMembers = {10, 11, 12, 13, 14};
constexpr std::uint64_t kValues = 6;  // three pieces of two values

struct FedTreeNode : testing::PaperNode<PlanAttempt> {
  explicit FedTreeNode(Rank self, bool streamed = true, Round round = 0, bool exact = false,
                       ReducePlan forest = {{tree_of_five()}, {0, 0, 0}})
      : PaperNode(table_of(self, (forest.how.streamed = streamed, forest)), round, exact) {}
  static std::unique_ptr<Table> table_of(Rank self, const ReducePlan& forest) {
    return std::make_unique<Table>(team(self, forest), kValues, 2, forest);
  }
  static GroupMembers team(Rank self, const ReducePlan& forest) {
    GroupMembers team{
        .self = self, .epoch = 0, .workers = kMembers, .members = kMembers, .server = {}};
    if (forest.trees[0].reduce_to.size() > kMembers.size()) team.server = 15;
    return team;
  }
};

// --- shares -------------------------------------------------------------------------------------

TEST(PlanAttempt, ItsShareGoesToAllWhoStandAboveIt) {
  const std::map<Rank, Ranks> told = {{10, {12}}, {11, {12, 10}}, {12, {}}, {13, {10, 12}}};
  for (const auto& [self, expected] : told) {
    FedTreeNode node(self);
    node.contribute(2.5);
    Ranks to;
    for (const auto& [rank, share] : node.context.shares) {
      to.push_back(rank);
      EXPECT_EQ(share.weight, 2.5);
      EXPECT_EQ(share.length, kValues);
      EXPECT_EQ(share.vector, (CodecKey{{0, 0, 0}, self}));
    }
    EXPECT_EQ(to, expected) << self;
  }
}

TEST(PlanAttempt, SharesComeOnceFromThoseBelow) {
  FedTreeNode node(10);
  EXPECT_FALSE(node.share(9, 1)) << "no member";
  EXPECT_FALSE(node.share(10, 1)) << "in the name of this node";
  EXPECT_FALSE(node.share(12, 1)) << "stands above";
  EXPECT_FALSE(node.share(14, 1)) << "stands beside";
  EXPECT_TRUE(node.share(13, 1));
  EXPECT_FALSE(node.share(13, 1)) << "again";
}

// The root of the first piece hears from all.
TEST(PlanAttempt, TheRootTellsAllWhoIsCountedWhenItKnows) {
  FedTreeNode root(12);
  for (const Rank from : {10u, 11u, 13u, 14u}) {
    ASSERT_TRUE(root.share(from, from == 13 ? 0 : 2));
    EXPECT_TRUE(root.context.rosters().empty());
  }
  root.contribute(0.5);
  ASSERT_EQ(root.context.rosters().size(), 4u);
  EXPECT_EQ(root.context.contributors_known, (testing::Known{{Ranks{10, 11, 12, 14}, 6.5}}));
  FedTreeNode other(10);
  for (const Rank from : {11u, 13u}) ASSERT_TRUE(other.share(from, 1));
  other.contribute(1);
  EXPECT_TRUE(other.context.rosters().empty()) << "one tells";
}

// --- parts --------------------------------------------------------------------------------------

TEST(PlanAttempt, ALeafSendsItsOwnBytes) {
  FedTreeNode leaf(11);
  leaf.contribute(4);
  ASSERT_EQ(leaf.context.posts.size(), 1u);
  EXPECT_EQ(leaf.last(), (testing::Post{leaf.own(11), 10u, 4}));
  EXPECT_EQ(leaf.newest().ranges, (std::vector<Range>{{0, 2}, {2, 2}, {4, 2}}));
  EXPECT_TRUE(leaf.context.own_asked.empty()) << "written when the link has room";
  EXPECT_EQ(leaf.sent(leaf.own(11), 2), (Floats{11, 11}));
  EXPECT_TRUE(leaf.attempt.drained()) << "nothing of it is kept";
}

// 10 + 3/4 (30 - 10) = 25; 25 + 4/8 (15 - 25) = 20. PaperContext cuts what is behind the point.
TEST(PlanAttempt, MixesItsOwnWithThePartsOfItsChildren) {
  for (const bool exact : {false, true}) {
    FedTreeNode node(10, true, 0, exact);
    const Coding up = exact ? Coding::exact : Coding::up;
    node.contribute(1);
    ASSERT_TRUE(node.share(11, 3) && node.share(13, 4));
    ASSERT_TRUE(node.give(13, node.key(Phase::part, up, 13), 1, 4, 15.5f));
    EXPECT_TRUE(node.context.posts.empty()) << "one child is missing";
    ASSERT_TRUE(node.give(11, node.key(Phase::part, up, 11), 1, 3, 30));
    const TransferKey out = exact ? node.key(Phase::part, Coding::exact, 10) : node.mixed(10);
    EXPECT_EQ(node.last(), (testing::Post{out, 12u, 8})) << "of all below";
    EXPECT_EQ(node.newest().ranges, (std::vector<Range>{{2, 2}})) << "piece by piece";
    EXPECT_FALSE(node.attempt.drained());
    EXPECT_EQ(node.sent(out, 1), exact ? (Floats{20.25f, 20.25f}) : (Floats{20, 20}));
    EXPECT_TRUE(node.attempt.drained());
  }
}

// a part may come before this node has its own, and before the shares of others below.
TEST(PlanAttempt, R2_2_AnyOrderOfSharesAndPartsGivesTheSameBits) {
  // What comes: 0 this node's own, 1 and 2 shares, 3 and 4 the parts after them.
  Places order = {0, 1, 2, 3, 4};
  Floats first;
  do {
    const auto at = [&](std::uint32_t what) {
      return std::find(order.begin(), order.end(), what) - order.begin();
    };
    if (at(3) < at(1) || at(4) < at(2)) continue;
    FedTreeNode node(10, true, 0, true);
    node.context.set_own(0.1f);
    for (const std::uint32_t what : order) {
      EXPECT_TRUE(node.context.posts.empty());
      const auto part = [&](Rank from, double weight, float value) {
        return node.give(from, node.key(Phase::part, Coding::exact, from), 0, weight, value);
      };
      if (what == 0) node.contribute(0.3);
      EXPECT_TRUE(what != 1 || node.share(11, 0.7));
      EXPECT_TRUE(what != 2 || node.share(13, 1.9));
      EXPECT_TRUE(what != 3 || part(11, 0.7, 3));
      EXPECT_TRUE(what != 4 || part(13, 1.9, 1e7f));
    }
    ASSERT_EQ(node.context.posts.size(), 1u);
    const Floats sent = node.sent(node.key(Phase::part, Coding::exact, 10), 0);
    if (first.empty()) first = sent;
    EXPECT_EQ(sent, first);
  } while (std::next_permutation(order.begin(), order.end()));
}

// Who brings nothing is not waited for, and nothing is sent for those who bring nothing.
TEST(PlanAttempt, WhoBringsNothingSendsNothing) {
  FedTreeNode leaf(11), alone(10), idle(10), passes(10);
  leaf.contribute(0);
  EXPECT_TRUE(leaf.context.posts.empty());

  alone.contribute(2);
  ASSERT_TRUE(alone.share(11, 0) && alone.share(13, 0));
  ASSERT_EQ(alone.context.posts.size(), 1u);
  EXPECT_EQ(alone.newest().key, alone.own(10)) << "its own bytes are all there is";
  EXPECT_FALSE(alone.admits(11, alone.own(11))) << "of one who brings nothing";

  idle.contribute(0);
  ASSERT_TRUE(idle.share(11, 0) && idle.share(13, 0));
  EXPECT_TRUE(idle.context.posts.empty());
  EXPECT_TRUE(idle.context.own_asked.empty());

  passes.contribute(0);
  ASSERT_TRUE(passes.share(11, 0) && passes.share(13, 4));
  ASSERT_TRUE(passes.give(13, passes.own(13), 0, 4, 7));
  EXPECT_EQ(passes.newest().key, passes.mixed(10));
  EXPECT_EQ(passes.newest().weight, 4);
  EXPECT_EQ(passes.sent(passes.mixed(10), 0), (Floats{7, 7}));
  EXPECT_TRUE(passes.context.own_asked.empty());
}

TEST(PlanAttempt, WithoutContributionsThereIsNoMean) {
  FedTreeNode root(12);
  root.contribute(0);
  for (const Rank from : {10u, 11u, 13u, 14u}) {
    EXPECT_FALSE(root.attempt.reduced());
    ASSERT_TRUE(root.share(from, 0));
  }
  EXPECT_TRUE(root.context.means.empty() && root.context.posts.empty());
  EXPECT_EQ(root.context.contributors_known, (testing::Known{{Ranks{}, 0.0}}));
  EXPECT_TRUE(root.attempt.reduced());
}

// What a part weighs follows from shares. Where they are known, another weight is a lie.
TEST(PlanAttempt, APartWeighsWhatTheSharesSay) {
  FedTreeNode node(12);
  node.contribute(1);
  for (const Rank from : {10u, 11u, 13u}) ASSERT_TRUE(node.share(from, 1));
  ASSERT_TRUE(node.give(10, node.mixed(10), 0, 77, 9)) << "before the share of 14 it may be right";
  ASSERT_TRUE(node.share(14, 0));
  EXPECT_EQ(node.context.means.at(0), (Floats{9, 9})) << "12 + 3/4 (9 - 12) is 9.75";
  EXPECT_EQ(node.newest().weight, 4);
  EXPECT_FALSE(node.give(10, node.mixed(10), 1, 77, 9));
  EXPECT_FALSE(node.context.means.contains(1));
  EXPECT_TRUE(node.give(10, node.mixed(10), 1, 3, 9)) << "the true one that follows counts";
  EXPECT_TRUE(node.context.means.contains(1));
}

TEST(PlanAttempt, PartsComeFromChildrenInTheirCodingAndOnce) {
  FedTreeNode node(12);
  node.contribute(1);
  EXPECT_FALSE(node.admits(10, node.mixed(10))) << "before the share";
  for (const Rank from : {10u, 11u, 13u}) ASSERT_TRUE(node.share(from, 1));
  EXPECT_FALSE(node.admits(11, node.own(11))) << "of a grandchild";
  EXPECT_FALSE(node.admits(9, node.own(9))) << "of a stranger";
  EXPECT_FALSE(node.admits(12, node.own(12))) << "of this node";
  EXPECT_FALSE(node.admits(10, node.mixed(11))) << "in another's name";
  EXPECT_FALSE(node.admits(10, node.key(Phase::part, Coding::exact, 10)));
  EXPECT_TRUE(node.admits(10, node.mixed(10)));
  EXPECT_TRUE(node.admits(10, node.own(10))) << "if those below it bring nothing";
  EXPECT_FALSE(node.admits(14, node.own(14))) << "before the share";
  ASSERT_TRUE(node.share(14, 1));
  EXPECT_TRUE(node.admits(14, node.own(14)));
  EXPECT_FALSE(node.admits(14, node.mixed(14))) << "a leaf has nothing to mix";
  TransferKey late = node.mixed(10);
  ++late.vector.round;
  EXPECT_FALSE(node.admits(10, late)) << "of another round";
  late = node.mixed(10);
  ++late.epoch;
  EXPECT_FALSE(node.admits(10, late)) << "of another epoch";
  ASSERT_TRUE(node.give(10, node.mixed(10), 0, 3, 1));
  EXPECT_FALSE(node.admits(10, node.mixed(10), 0)) << "again";
  EXPECT_FALSE(node.admits(10, node.own(10), 0)) << "again, in the other coding";
  EXPECT_TRUE(node.admits(10, node.mixed(10), 1));
  ASSERT_TRUE(node.give(14, node.own(14), 0, 1, 1));
  EXPECT_FALSE(node.admits(14, node.own(14), 0)) << "when it is mixed";
}

// --- means --------------------------------------------------------------------------------------

// all hold the same bits, so the root takes what the others will read: 12 + 1/2 (13 - 12).
TEST(PlanAttempt, R2_1_TheRootUsesWhatTheOthersWillRead) {
  FedTreeNode root(12);
  root.contribute(1);
  for (const Rank from : {10u, 11u, 13u}) ASSERT_TRUE(root.share(from, 0));
  ASSERT_TRUE(root.share(14, 1));
  ASSERT_TRUE(root.give(14, root.own(14), 0, 1, 13));
  EXPECT_EQ(root.context.means.at(0), (Floats{12, 12}));
  EXPECT_EQ(root.last(), (testing::Post{root.mean(12), 14u, 2}))
      << "the only one that hears from it";
  EXPECT_EQ(root.sent(root.mean(12), 0), (Floats{12, 12}));
  EXPECT_TRUE(root.attempt.drained());
}

// written anew at every node, a mean would be other bits at each. 2.5 would be 2.
TEST(PlanAttempt, R2_1_AMeanGoesOnInTheBytesItCameIn) {
  FedTreeNode node(14);
  node.contribute(1);
  ASSERT_TRUE(node.give(12, node.mean(12), 0, 5, 2.5f));
  EXPECT_EQ(node.context.means.at(0), (Floats{2.5f, 2.5f}));
  EXPECT_EQ(node.last(), (testing::Post{node.mean(12), 13u, 5})) << "in the name of its root";
  EXPECT_EQ(node.sent(node.mean(12), 0), (Floats{2.5f, 2.5f}));
  node.context.posts.clear();
  FedTreeNode last(11);
  last.contribute(1);
  last.context.posts.clear();
  ASSERT_TRUE(last.give(10, last.mean(12), 0, 5, 2.5f));
  EXPECT_TRUE(last.context.posts.empty()) << "nobody hears from it";
  EXPECT_TRUE(last.attempt.drained());
}

TEST(PlanAttempt, MeansComeDownTheTreeInTheRootsNameAndNotTooEarly) {
  FedTreeNode node(13), root(12);
  EXPECT_FALSE(node.admits(14, node.mean(12))) << "before this node's part";
  node.contribute(1), root.contribute(1);
  EXPECT_TRUE(node.admits(14, node.mean(12)));
  EXPECT_FALSE(node.admits(12, node.mean(12))) << "of the root, which does not send here";
  EXPECT_FALSE(node.admits(10, node.mean(12))) << "of the one it sends to";
  EXPECT_FALSE(node.admits(14, node.mean(14))) << "in another's name";
  for (const Coding coding : {Coding::exact, Coding::up})
    EXPECT_FALSE(node.admits(14, node.key(Phase::mean, coding, 12))) << int(coding);
  EXPECT_FALSE(root.admits(12, root.mean(12))) << "at the root";
  EXPECT_FALSE(root.admits(14, root.mean(12))) << "at the root";
}

// --- servers, phases, order ---------------------------------------------------------------------

// It brings nothing, keeps no mean, and begins when it has all shares.
TEST(PlanAttempt, AServerThatIsNoMemberMixesWhatComes) {
  const Tree star{5, {5, 5, 5, 5, 5, 5}, {5, 5, 5, 5, 5, 5}};
  FedTreeNode server(15, true, 0, false, {{star}, {0, 0, 0}});
  for (const Rank from : {10u, 11u, 12u, 13u}) ASSERT_TRUE(server.share(from, 0));
  EXPECT_FALSE(server.attempt.reduced());
  ASSERT_TRUE(server.share(14, 2));
  EXPECT_EQ(server.context.rosters().size(), 5u);
  EXPECT_TRUE(server.context.contributors_known.empty());
  for (std::size_t piece = 0; piece < 3; ++piece)
    ASSERT_TRUE(server.give(14, server.own(14), piece, 2, 3));
  EXPECT_TRUE(server.context.means.empty());
  EXPECT_EQ(server.posted(server.mean(15)).size(), 3u * 5u);
  EXPECT_TRUE(server.attempt.reduced());
  EXPECT_FALSE(server.attempt.drained());
  for (std::size_t piece = 0; piece < 3; ++piece)
    for (int to = 0; to < 5; ++to) EXPECT_EQ(server.sent(server.mean(15), piece), (Floats{3, 3}));
  EXPECT_TRUE(server.attempt.drained());
}

// Two trees wait each for itself, parts beside means; how much is here is known after loading.
TEST(PlanAttempt, SequentialTreesGoOnWhenAllOfThemIsHereAlsoAfterLoading) {
  const Tree second{4, {4, 0, 4, 0, 4}, {4, 0, 4, 0, 4}};
  const ReducePlan forest{{tree_of_five(), second}, {0, 1, 0}};
  for (const bool streamed : {true, false}) {
    FedTreeNode before(10, streamed, 0, false, forest), node(10, streamed, 0, false, forest);
    before.contribute(1);
    ASSERT_TRUE(before.share(11, 1) && before.share(13, 1));
    ASSERT_TRUE(before.give(11, before.own(11), 0, 1, 5));
    ASSERT_TRUE(before.give(13, before.own(13), 0, 1, 5));
    ASSERT_TRUE(before.give(13, before.own(13), 2, 1, 5));
    ASSERT_TRUE(before.give(13, before.mean(12), 0, 5, 5));
    ASSERT_TRUE(before.give(14, before.mean(14), 1, 5, 5));
    EXPECT_EQ(before.posted(before.mixed(10)).size(), streamed ? 1u : 0u);
    EXPECT_EQ(before.posted(before.mean(12)).size(), streamed ? 1u : 0u);
    EXPECT_EQ(before.posted(before.mean(14)).size(), 2u) << "all of it is here";
    ASSERT_NO_FATAL_FAILURE(node.load(before));
    EXPECT_FALSE(node.admits(11, node.own(11), 0)) << "came before";
    ASSERT_TRUE(node.give(11, node.own(11), 2, 1, 5));
    const std::vector<Range> both = {{0, 2}, {4, 2}}, last = {{4, 2}};
    EXPECT_EQ(node.posted(node.mixed(10)), streamed ? last : both);
    ASSERT_TRUE(node.give(13, node.mean(12), 2, 5, 5));
    EXPECT_EQ(node.posted(node.mean(12)), streamed ? last : both);
    EXPECT_EQ(node.sent(node.mixed(10), 0), (Floats{6, 6})) << "kept over loading";
  }
}

// What waits for a link: older rounds first, then what has the longest way to go, in all trees.
TEST(PlanAttempt, WhatHasTheLongestWayToGoGoesFirst) {
  FedTreeNode leaf(11, true, 1), inner(10, true, 1), root(12, true, 1), four(14, true, 1);
  FedTreeNode three(13, true, 1);
  std::vector<std::uint64_t> orders;
  const auto note = [&](const FedTreeNode& node) { orders.push_back(node.newest().service.order); };
  leaf.contribute(1), note(leaf);  // up 2 and down 4, of 6 in all
  inner.contribute(1);
  ASSERT_TRUE(inner.share(11, 1) && inner.share(13, 0));
  ASSERT_TRUE(inner.give(11, inner.own(11), 0, 1, 1));
  note(inner);
  root.contribute(1);
  for (const Rank from : {10u, 11u}) ASSERT_TRUE(root.share(from, 1));
  for (const Rank from : {13u, 14u}) ASSERT_TRUE(root.share(from, 0));
  ASSERT_TRUE(root.give(10, root.mixed(10), 0, 2, 1));
  note(root);
  four.contribute(0), three.contribute(0);
  ASSERT_TRUE(four.give(12, four.mean(12), 0, 3, 1));
  note(four);
  ASSERT_TRUE(three.give(14, three.mean(12), 0, 3, 1));
  note(three);
  EXPECT_EQ(orders, (std::vector<std::uint64_t>{384, 385, 386, 387, 388}));
}

// Interleaved, a piece stands `lag` pieces behind for each link that it has crossed; absent, behind
// all that has crossed fewer. Rounds go before later ones whatever the trees of each are like.
TEST(PlanAttempt, PiecesStandInLineByTheirPlaceAndTheLinksBehindThem) {
  using One = testing::PaperNode<PlanAttempt>;
  for (const auto& [lag, hop] : {std::pair{std::optional(1u), 1u}, {std::nullopt, 3u}}) {
    const ReducePlan forest{{tree_of_five()}, {0, 0, 0}, lag, {.interleaved = true}};
    One leaf(FedTreeNode::table_of(11, forest), 1, false);
    One inner(FedTreeNode::table_of(10, forest), 1, false);
    const auto orders = [](const One& node) {
      std::vector<std::uint64_t> all;
      for (const Outgoing& out : node.context.posts) all.push_back(out.service.order);
      return all;
    };
    leaf.contribute(1);
    EXPECT_EQ(orders(leaf), (std::vector<std::uint64_t>{12288, 12289, 12290}));
    inner.contribute(1);
    ASSERT_TRUE(inner.share(11, 1) && inner.share(13, 0));
    ASSERT_TRUE(inner.give(11, inner.own(11), 2, 1, 1));
    EXPECT_EQ(orders(inner), (std::vector<std::uint64_t>{12288 + hop + 2}));
  }
}

// What nobody passes on goes behind all parts and means that somebody does.
TEST(PlanAttempt, MeansOnTheirLastLinkStandBehindAllElse) {
  using One = testing::PaperNode<PlanAttempt>;
  const Places leaves(5, 0);
  const ReducePlan star{{{0, leaves, leaves}}, {0, 0, 0}, 1, {.interleaved = true}};
  One root(FedTreeNode::table_of(10, star), 1, false);
  root.contribute(1);
  ASSERT_TRUE(root.share(11, 1) && root.share(12, 0) && root.share(13, 0) && root.share(14, 0));
  ASSERT_TRUE(root.give(11, root.own(11), 2, 1, 1));
  ASSERT_EQ(root.context.posts.size(), 4u);
  for (const Outgoing& mean : root.context.posts)
    EXPECT_EQ(mean.service.order, 12288u + 3 + 2) << "one link crossed, of three pieces";
}

TEST(PlanAttempt, SaysWhomItWaitsFor) {
  FedTreeNode node(10, true, 7);
  node.contribute(1);
  EXPECT_EQ(node.attempt.waiting_for({}), "round 7: shares of ranks 11, 13");
  ASSERT_TRUE(node.share(11, 1) && node.share(13, 1));
  ASSERT_TRUE(node.give(11, node.own(11), 0, 1, 1));
  EXPECT_EQ(node.attempt.waiting_for({}), "round 7: parts of ranks 11, 13");
  ASSERT_TRUE(node.give(11, node.own(11), 1, 1, 1));
  ASSERT_TRUE(node.give(11, node.own(11), 2, 1, 1));
  EXPECT_EQ(node.attempt.waiting_for({}), "round 7: parts of rank 13");
  for (std::size_t piece = 0; piece < 3; ++piece)
    ASSERT_TRUE(node.give(13, node.own(13), piece, 1, 1));
  EXPECT_EQ(node.attempt.waiting_for({true, false, true}), "round 7: means of rank 13");
  EXPECT_EQ(node.attempt.waiting_for({true, true, true}), "round 7: roster of rank 12");
}

// --- forests ------------------------------------------------------------------------------------

// All nodes of a forest drawn at random; which link brings its next piece is drawn, too.
struct Wood {
  using One = testing::PaperNode<PlanAttempt>;
  Wood(ReducePlan forest, std::uint32_t members, bool streamed, bool exact) {
    forest.how.streamed = streamed;
    Ranks all(members);
    std::iota(all.begin(), all.end(), Rank{20});
    for (const Rank self : all) {
      const GroupMembers team{
          .self = self, .epoch = 0, .workers = all, .members = all, .server = {}};
      auto table = std::make_unique<Table>(team, kValues, 2, forest);
      nodes.emplace(self, std::make_unique<One>(std::move(table), 0, exact));
      nodes.at(self)->context.set_own(value(self));
    }
  }
  static float value(Rank rank) { return float(rank * rank) / 7; }
  static double weight(Rank rank) { return rank % 3 == 0 ? 0 : 1 + double(rank % 5) / 3; }

  void begin(Rank self) {
    nodes.at(self)->contribute(weight(self));
    for (const auto& [to, share] : nodes.at(self)->context.shares)
      ASSERT_TRUE(nodes.at(to)->share(self, share.weight));
  }
  void run(Random& random) {
    Ranks to_start;
    for (const auto& [rank, node] : nodes) to_start.push_back(rank);
    for (;;) {
      Ranks busy;
      for (const auto& [rank, node] : nodes)
        if (!node->context.posts.empty()) busy.push_back(rank);
      if (busy.empty() && to_start.empty()) return;
      if (!to_start.empty() && (busy.empty() || random.below(3) == 0)) {
        const std::size_t which = random.below(to_start.size());
        const Rank rank = to_start[which];
        to_start.erase(to_start.begin() + std::ptrdiff_t(which));
        ASSERT_NO_FATAL_FAILURE(begin(rank));
        continue;
      }
      One& from = *nodes.at(busy[random.below(busy.size())]);
      const Outgoing out = from.context.posts.front();
      from.context.posts.erase(from.context.posts.begin());
      ASSERT_NO_FATAL_FAILURE(from.bring(out, *nodes.at(out.to)));
    }
  }

  std::map<Rank, std::unique_ptr<One>> nodes;
};

ReducePlan draw_forest(std::uint32_t members, Random& random) {
  const auto draw = [&](std::uint32_t root) {
    Places order(members), towards(members, root);
    std::iota(order.begin(), order.end(), 0u);
    random.shuffle(std::span(order));
    std::swap(*std::find(order.begin(), order.end(), root), order[0]);
    for (std::uint32_t i = 1; i < members; ++i) towards[order[i]] = order[random.below(i)];
    return towards;
  };
  ReducePlan forest;
  for (int tree = 0; tree < 3; ++tree) {
    const auto root = std::uint32_t(random.below(members));
    forest.trees.push_back({root, draw(root), draw(root)});
  }
  for (std::size_t piece = 0; piece < 3; ++piece)
    forest.tree_of.push_back(std::uint32_t(random.below(3)));
  return forest;
}

// for whatever trees a plan may have: all end with the same bits, which are the
// mean, and keep nothing.
TEST(PlanAttempt, R2_2_AnyForestEndsWithTheSameBitsInAnyOrder) {
  for (std::uint64_t seed = 1; seed <= longhaul::testing::cases(300); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed, {Purpose::test});
    const auto members = std::uint32_t(2 + random.below(9));
    const ReducePlan forest = draw_forest(members, random);
    double sum = 0, weights = 0;
    for (Rank rank = 20; rank < 20 + members; ++rank) {
      sum += Wood::weight(rank) * double(Wood::value(rank));
      weights += Wood::weight(rank);
    }
    std::map<std::size_t, Floats> first;
    for (int order = 0; order < 4; ++order) {
      Wood wood(forest, members, seed % 2 == 0, /*exact=*/true);
      ASSERT_NO_FATAL_FAILURE(wood.run(random));
      if (first.empty()) first = wood.nodes.begin()->second->context.means;
      ASSERT_EQ(first.size(), 3u);
      for (const auto& [piece, values] : first)
        for (const float one : values) EXPECT_NEAR(one, sum / weights, 1e-4);
      for (const auto& [rank, node] : wood.nodes) {
        EXPECT_EQ(node->context.means, first) << rank;
        EXPECT_TRUE(node->attempt.drained()) << rank;
        EXPECT_TRUE(node->attempt.reduced()) << rank;
      }
    }
  }
}

}  // namespace
}  // namespace longhaul::overlay
