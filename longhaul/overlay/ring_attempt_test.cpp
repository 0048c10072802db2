// One attempt of a ring, fed by hand. Whole circles: agreed_test.cpp.
//
// Invariants: to R-2.4 (agreed_test.cpp).
#include <map>

#include <gtest/gtest.h>

#include "longhaul/overlay/fixed_plans.h"
#include "longhaul/overlay/reduction.h"
#include "longhaul/overlay/testing/paper_node.h"

namespace longhaul::overlay {
namespace {

using testing::PaperContext;
using testing::Table;
using Floats = std::vector<float>;
using Ranks = std::vector<Rank>;

constexpr std::uint64_t kVector = 12;

// Rank `self` in a circle: three workers, four values each in two pieces: 0 and 1 are of rank 0, 2
// and 3 of rank 1, 4 and 5 of rank 2; those of rank k start at the member after k.
struct RingNode : testing::PaperNode<PlanAttempt> {
  explicit RingNode(Rank self, bool streamed = true, Ranks members = {0, 1, 2}, Round round = 0,
                    bool exact = false)
      : PaperNode(table_of(self, std::move(members), streamed), round, exact) {}
  static std::unique_ptr<Table> table_of(Rank self, Ranks members, bool streamed,
                                         std::uint64_t length = kVector) {
    const GroupMembers team{self, 0, {0, 1, 2}, std::move(members), {}};
    return std::make_unique<Table>(team, length, 3, 2, [=](const auto& grid, const auto& who) {
      return circles(grid, who, who.members, streamed);
    });
  }
  using PaperNode::give;
  // From the member before.
  void give(const TransferKey& key, std::size_t piece, double weight, float value) {
    const Ranks& members = table->team.members;
    const std::size_t index = *table->team.index_of(self());
    EXPECT_TRUE(
        give(members[(index + members.size() - 1) % members.size()], key, piece, weight, value));
  }
};

// --- what it sends ------------------------------------------------------------------------------

// The next must know a weight before a part comes, the root every weight; neither hears it twice.
TEST(RingAttempt, ItsShareGoesToTheNextAndToTheRootOnce) {
  const Ranks told[] = {{1}, {2, 0}, {0}};
  for (Rank self = 0; self < 3; ++self) {
    RingNode node(self);
    node.contribute(2.5);
    Ranks to;
    for (const auto& [rank, share] : node.context.shares) {
      to.push_back(rank);
      EXPECT_EQ(share.weight, 2.5);
      EXPECT_EQ(share.length, kVector);
      EXPECT_EQ(share.vector, (CodecKey{{0, 0, 0}, self}));
    }
    EXPECT_EQ(to, told[self]) << self;
  }
}

// The pieces of the member before start here, as this node's own contribution; no others do.
TEST(RingAttempt, ThePiecesOfTheMemberBeforeStartHere) {
  RingNode node(1);
  node.contribute(4);
  ASSERT_EQ(node.context.posts.size(), 1u);
  EXPECT_EQ(node.last(), (testing::Post{node.own(1), 2u, 4}));
  EXPECT_EQ(node.newest().ranges, (std::vector<Range>{{0, 2}, {2, 2}}));
  EXPECT_EQ(node.sent(node.own(1), 0), (Floats{1, 1}));
  EXPECT_EQ(node.context.own_asked.size(), 1u) << "written when the link has room";
}

// m + a / A (z - m), in double, with the sum of the weights beside it: 7 + 3/4 (1 - 7) = 2.5.
// PaperContext cuts what is behind the point of what goes down.
TEST(RingAttempt, MixesItsOwnPartIntoTheMeanSoFar) {
  RingNode node(1), exact(1, true, {0, 1, 2}, 0, /*exact=*/true);
  for (RingNode* one : {&node, &exact}) {
    const bool is_exact = one == &exact;
    const Coding up = is_exact ? Coding::exact : Coding::up;
    const Coding down = is_exact ? Coding::exact : Coding::down;
    one->contribute(3);
    ASSERT_TRUE(one->share(0, 1));
    one->give(one->key(Phase::part, up, 0), 4, 1, 7);
    const TransferKey out = one->key(Phase::part, down, 1);
    EXPECT_EQ(one->last(), (testing::Post{out, 2u, 4}));
    EXPECT_EQ(one->sent(out, 4), is_exact ? (Floats{2.5f, 2.5f}) : (Floats{2, 2}));
    EXPECT_TRUE(one->attempt.drained()) << "what went out is not kept";
  }
}

// a part that comes before this node has its own waits, with the weight it came with.
TEST(RingAttempt, R2_2_APartThatComesEarlyIsMixedLater) {
  RingNode early(1), late(1);
  ASSERT_TRUE(early.share(0, 9) && late.share(0, 9));
  early.give(early.own(0), 5, 9, 11);
  early.give(early.own(0), 4, 9, 11);
  EXPECT_TRUE(early.context.posts.empty());
  EXPECT_FALSE(early.admits(0, early.own(0), 4)) << "for the second time";
  early.contribute(1);
  late.contribute(1);
  late.give(late.own(0), 4, 9, 11);
  late.give(late.own(0), 5, 9, 11);
  EXPECT_EQ(early.newest().weight, 10);
  for (const std::size_t piece : {4u, 5u}) {
    const Floats sent = early.sent(early.mixed(1), piece);
    EXPECT_EQ(sent, (Floats{10, 10}));
    EXPECT_EQ(late.sent(late.mixed(1), piece), sent);
  }
  EXPECT_EQ(early.saved().size(), late.saved().size()) << "nothing of it is kept";
}

// all hold the same bits, so the owner takes what the others will read: (1 * 0 + 3) / 2.
TEST(RingAttempt, R2_1_TheOwnerUsesWhatTheOthersWillRead) {
  RingNode node(0);
  node.contribute(1);
  ASSERT_TRUE(node.share(2, 1));
  node.give(node.mixed(2), 0, 1, 3);
  EXPECT_EQ(node.context.means.at(0), (Floats{1, 1}));
  EXPECT_EQ(node.last(), (testing::Post{node.mean(0), 1u, 2}));
  EXPECT_EQ(node.sent(node.mean(0), 0), (Floats{1, 1}));
}

// written anew at every hop, a mean would be other bits at every member. 2.5 would be 2.
TEST(RingAttempt, R2_1_AMeanGoesOnInTheBytesItCameIn) {
  RingNode node(1);
  node.contribute(1);
  ASSERT_TRUE(node.share(0, 1));
  node.give(node.mean(0), 0, 3, 2.5f);
  EXPECT_EQ(node.context.means.at(0), (Floats{2.5f, 2.5f}));
  EXPECT_EQ(node.last(), (testing::Post{node.mean(0), 2u, 3})) << "in its owner's name";
  EXPECT_EQ(node.sent(node.mean(0), 0), (Floats{2.5f, 2.5f}));
  node.context.posts.clear();
  node.give(node.mean(2), 4, 3, 2.5f);
  EXPECT_TRUE(node.context.posts.empty()) << "rank 2 made it";
  EXPECT_TRUE(node.attempt.drained());
}

// --- what it refuses ----------------------------------------------------------------------------

TEST(RingAttempt, SharesComeOnceFromTheMemberBeforeOrAtTheRootFromAll) {
  RingNode root(0), second(1);
  EXPECT_FALSE(root.share(3, 1)) << "no member";
  EXPECT_FALSE(root.share(0, 1)) << "in the name of this node";
  EXPECT_TRUE(root.share(1, 1));
  EXPECT_FALSE(root.share(1, 1)) << "again";
  EXPECT_TRUE(root.share(2, 1));
  EXPECT_FALSE(root.share(2, 1)) << "again, from the member before";
  EXPECT_TRUE(root.context.rosters().empty()) << "its own weight is still to come";
  EXPECT_FALSE(second.share(2, 1)) << "neither before it nor is it the root";
  EXPECT_FALSE(second.share(1, 1)) << "in the name of this node";
  EXPECT_TRUE(second.share(0, 1));
  EXPECT_FALSE(second.share(0, 1)) << "again";
}

TEST(RingAttempt, PartsComeFromTheMemberBeforeInTheirCodingAndOnce) {
  RingNode node(1);
  node.contribute(1);
  EXPECT_FALSE(node.admits(0, node.own(0), 4)) << "before the share";
  ASSERT_TRUE(node.share(0, 1));
  EXPECT_FALSE(node.admits(2, node.own(2), 4)) << "of the member after";
  EXPECT_FALSE(node.admits(1, node.own(1), 4)) << "of this node";
  EXPECT_FALSE(node.admits(0, node.own(2), 4)) << "in another's name";
  EXPECT_FALSE(node.admits(0, node.mixed(0), 0)) << "its own piece: that one starts here";
  EXPECT_FALSE(node.admits(0, node.own(0), 2)) << "a mean so far, in the coding of a first part";
  for (const Coding coding : {Coding::exact, Coding::up})
    EXPECT_FALSE(node.admits(0, node.key(Phase::part, coding, 0), 2)) << int(coding);
  EXPECT_FALSE(node.admits(0, node.key(Phase::part, Coding::exact, 0), 4));
  EXPECT_TRUE(node.admits(0, node.own(0), 4));
  EXPECT_TRUE(node.admits(0, node.mixed(0), 4)) << "zeros, of one who brings nothing";
  EXPECT_TRUE(node.admits(0, node.mixed(0), 2));
  TransferKey next = node.own(0);
  ++next.vector.round;
  EXPECT_FALSE(node.admits(0, next, 4)) << "of another round";
  next = node.own(0);
  ++next.epoch;
  EXPECT_FALSE(node.admits(0, next, 4)) << "of another epoch";
  node.give(node.own(0), 4, 1, 1);
  EXPECT_FALSE(node.admits(0, node.own(0), 4)) << "again";
  EXPECT_FALSE(node.admits(0, node.mixed(0), 4)) << "again, in the other coding";
  EXPECT_TRUE(node.admits(0, node.own(0), 5));
}

// Otherwise the roster would count a member whose part the mean lacks.
TEST(RingAttempt, APartWeighsWhatItsSenderAnnounced) {
  RingNode node(1);
  node.contribute(1);
  ASSERT_TRUE(node.share(0, 3));
  for (const double wrong : {0.0, 2.0, 4.0})
    EXPECT_FALSE(node.give(0, node.own(0), 4, wrong, 1)) << wrong;
  EXPECT_FALSE(node.give(0, node.mixed(0), 2, 2.5, 1)) << "less than its own";
  EXPECT_EQ(node.context.posts.size(), 1u) << "its own pieces, that start here";
  node.give(node.own(0), 4, 3, 1);
  EXPECT_EQ(node.last(), (testing::Post{node.mixed(1), 2u, 4}));
  node.give(node.mixed(0), 2, 5, 1);
  EXPECT_EQ(node.last(), (testing::Post{node.mean(1), 2u, 6}));
}

TEST(RingAttempt, MeansComeFromTheMemberBeforeInTheOwnersNameAndNotTooEarly) {
  RingNode node(1);
  ASSERT_TRUE(node.share(0, 1));
  EXPECT_FALSE(node.admits(0, node.mean(0), 0)) << "before this node's part";
  node.contribute(1);
  EXPECT_TRUE(node.admits(0, node.mean(0), 0));
  EXPECT_TRUE(node.admits(0, node.mean(2), 4)) << "passed on by rank 0";
  EXPECT_FALSE(node.admits(2, node.mean(2), 4)) << "of the owner, the wrong way round";
  EXPECT_FALSE(node.admits(0, node.mean(0), 4)) << "another's piece";
  EXPECT_FALSE(node.admits(0, node.mean(1), 2)) << "a piece of this node's";
  for (const Coding coding : {Coding::exact, Coding::up})
    EXPECT_FALSE(node.admits(0, node.key(Phase::mean, coding, 0), 0)) << int(coding);
  RingNode alone(1, true, {1});
  alone.contribute(1);
  EXPECT_FALSE(alone.admits(1, alone.mean(1), 2)) << "nobody stands before who is alone";
}

// --- weights and the roster ---------------------------------------------------------------------

// By rank and not by place in the circle, which has a gap; once, when the last share is known.
TEST(RingAttempt, TheRootTellsAllWhoIsCountedWhenItKnows) {
  // Pieces 0 and 1 of the lost rank 0 go to ranks 1 and 2: rank 1 is the root.
  RingNode root(1, true, {1, 2});
  ASSERT_TRUE(root.share(2, 2));
  EXPECT_TRUE(root.context.rosters().empty());
  root.contribute(0.5);
  ASSERT_EQ(root.context.rosters().size(), 1u);
  EXPECT_EQ(root.context.rosters()[0].first, 2u);
  EXPECT_EQ(root.context.rosters()[0].second.counted, (std::vector<std::uint8_t>{1 << 1 | 1 << 2}));
  EXPECT_EQ(root.context.rosters()[0].second.weight, 2.5);
  EXPECT_EQ(root.context.contributors_known, (testing::Known{{Ranks{1, 2}, 2.5}}));

  RingNode other(2, true, {1, 2});
  ASSERT_TRUE(other.share(1, 0.5));
  other.contribute(2);
  EXPECT_TRUE(other.context.rosters().empty()) << "one tells";

  // The only value of a vector is of the last worker.
  const auto one = RingNode::table_of(2, {0, 1, 2}, true, 1);
  PaperContext context(one->grid, 2);
  PlanAttempt last(one->spec());
  last.contribute(1, 4, context);
  for (const Rank from : {0u, 1u})
    ASSERT_TRUE(last.take_announcement(from, {0, {{0, 0, 0}, from}, 1, false, 0}, context));
  EXPECT_EQ(context.contributors_known, (testing::Known{{Ranks{2}, 4.0}}));
}

// Who brings nothing passes on what comes, number for number, and where it stands first zeros that
// weigh nothing. Its codec's memory must not see them, so they are no first parts.
TEST(RingAttempt, WhoBringsNothingPassesOnWhatComes) {
  RingNode node(1);
  node.contribute(0);
  EXPECT_EQ(node.newest().key, node.mixed(1));
  EXPECT_EQ(node.newest().weight, 0);
  EXPECT_EQ(node.sent(node.mixed(1), 1), (Floats{0, 0}));
  ASSERT_TRUE(node.share(0, 4));
  node.give(node.own(0), 4, 4, 8);
  EXPECT_EQ(node.newest().weight, 4);
  EXPECT_EQ(node.sent(node.mixed(1), 4), (Floats{8, 8}));
  EXPECT_TRUE(node.context.own_asked.empty());

  RingNode after(2);  // of zeros nothing is left
  after.contribute(4);
  ASSERT_TRUE(after.share(1, 0));
  after.give(after.mixed(1), 0, 0, 0);
  EXPECT_EQ(after.sent(after.mixed(2), 0), (Floats{2, 2}));
}

// A mean of nobody is no mean: the roster says so, and no numbers follow.
TEST(RingAttempt, WithoutContributionsThereIsNoMean) {
  RingNode node(0);
  node.contribute(0);
  ASSERT_TRUE(node.share(1, 0) && node.share(2, 0));
  node.give(node.mixed(2), 0, 0, 0);
  EXPECT_TRUE(node.context.means.empty());
  EXPECT_TRUE(node.posted(node.mean(0)).empty());
  EXPECT_EQ(node.context.contributors_known, (testing::Known{{Ranks{}, 0.0}}));
  RingNode alone(1, true, {1});
  alone.contribute(0);
  EXPECT_TRUE(alone.context.means.empty());
  EXPECT_EQ(alone.context.contributors_known.size(), 1u);
}

// The last survivor gets back what the others would have read, and sends nothing.
TEST(RingAttempt, WhoIsAloneHasItsOwnBack) {
  RingNode node(2, true, {2});
  node.context.set_own(2.5f);
  node.contribute(3);
  EXPECT_EQ(node.context.means.size(), 6u);
  EXPECT_EQ(node.context.means.at(5), (Floats{2, 2})) << "as read";
  EXPECT_TRUE(node.context.posts.empty());
  EXPECT_TRUE(node.context.shares.empty());
  EXPECT_TRUE(node.attempt.drained());
  EXPECT_EQ(node.context.contributors_known, (testing::Known{{Ranks{2}, 3.0}}));
}

// --- when it sends ------------------------------------------------------------------------------

// Sequential: each segment waits for itself, its own beside that of the member before; how many of
// its pieces are here is known again after loading.
TEST(RingAttempt, SequentialSegmentsGoOnWhenAllOfThemIsHereAlsoAfterLoading) {
  for (const bool streamed : {true, false}) {
    RingNode before(1, streamed), node(1, streamed);
    before.contribute(1);
    ASSERT_TRUE(before.share(0, 1));
    before.give(before.own(0), 4, 1, 1);
    before.give(before.mean(2), 5, 1, 1);  // ends here
    before.give(before.mean(0), 0, 1, 1);
    before.give(before.mixed(0), 2, 1, 1);
    EXPECT_EQ(before.posted(before.mixed(1)).size(), streamed ? 1u : 0u);
    EXPECT_EQ(before.posted(before.mean(0)).size(), streamed ? 1u : 0u);
    EXPECT_EQ(before.posted(before.mean(1)).size(), streamed ? 1u : 0u);
    ASSERT_NO_FATAL_FAILURE(node.load(before));
    EXPECT_FALSE(node.admits(0, node.own(0), 4)) << "came before";
    node.give(node.own(0), 5, 1, 1);
    const std::vector<Range> two = {{8, 2}, {10, 2}}, last = {{10, 2}};
    EXPECT_EQ(node.posted(node.mixed(1)), streamed ? last : two);
    node.give(node.mean(0), 1, 1, 1);
    EXPECT_EQ(node.posted(node.mean(0)).size(), streamed ? 1u : 2u);
    EXPECT_EQ(node.sent(node.mixed(1), 4), (Floats{1, 1})) << "kept over loading";
  }
}

// What waits for a link: older rounds first, then what has the longest way to go. Round the circle
// of n the order of a segment rises by one a hop, 2 (n - 1) hops in all.
TEST(RingAttempt, WhatHasTheLongestWayToGoGoesFirst) {
  RingNode zero(0, true, {0, 1, 2}, 1), one(1, true, {0, 1, 2}, 1), two(2, true, {0, 1, 2}, 1);
  std::vector<std::uint64_t> orders;
  const auto note = [&](const RingNode& node) { orders.push_back(node.newest().service.order); };
  one.contribute(1), note(one);  // piece 0, of rank 0: 1 -> 2 -> 0, and its mean 0 -> 1 -> 2
  two.contribute(1), zero.contribute(1);
  ASSERT_TRUE(one.share(0, 1) && two.share(1, 1) && zero.share(2, 1));
  two.give(two.own(1), 0, 1, 1), note(two);
  zero.give(zero.mixed(2), 0, 2, 1), note(zero);
  one.give(one.mean(0), 0, 3, 1), note(one);
  EXPECT_EQ(orders, (std::vector<std::uint64_t>{384, 385, 386, 387}))
      << "round 1 of 64 ranges of 6 links";
}

TEST(RingAttempt, SaysWhomItWaitsFor) {
  RingNode node(0, true, {0, 1, 2}, 7);
  node.contribute(1);
  EXPECT_EQ(node.attempt.waiting_for({}), "round 7: parts of rank 2");
  ASSERT_TRUE(node.share(2, 1));
  for (const std::size_t piece : {2u, 3u}) node.give(node.own(2), piece, 1, 1);
  EXPECT_EQ(node.attempt.waiting_for({}), "round 7: parts of rank 2") << "of its own pieces";
  for (const std::size_t piece : {0u, 1u}) node.give(node.mixed(2), piece, 2, 1);
  std::vector<bool> means = {true, true, false, false, false, false};
  EXPECT_EQ(node.attempt.waiting_for(means), "round 7: means of rank 2");
  EXPECT_EQ(node.attempt.waiting_for(std::vector<bool>(6, true)), "round 7: shares of rank 1");

  RingNode other(1, true, {0, 1, 2}, 7);  // is told by the root alone
  other.contribute(1);
  ASSERT_TRUE(other.share(0, 1));
  for (const std::size_t piece : {4u, 5u}) other.give(other.own(0), piece, 1, 1);
  for (const std::size_t piece : {2u, 3u}) other.give(other.mixed(0), piece, 2, 1);
  EXPECT_EQ(other.attempt.waiting_for(std::vector<bool>(6, true)), "round 7: roster of rank 0");
}

// The same at all nodes, over what they are told of workers; servers stand nowhere; after a loss
// the circle closes over the gap.
TEST(RingOrder, IsOfTheWorkersThatLive) {
  auto members = std::make_shared<Members>(Members{{"a"}, {"hub"}, {"b"}, {"c"}, {"d"}});
  members->at(1).roles = std::uint8_t(Role::server);
  Place place{.members = members, .layout = Layout::flat(1)};
  // 0 to 3 to 2 to 4 to 0 is fast; the server would be fastest of all.
  const RateBelief rate = [](Rank from, Rank to) {
    if (from == 1 || to == 1) return 1000.0;
    const std::map<Rank, Rank> next = {{0, 3}, {3, 2}, {2, 4}, {4, 0}};
    return next.at(from) == to ? 10.0 : 1.0;
  };
  const std::vector<Rank> workers = {0, 2, 3, 4}, left = {0, 2, 4};
  for (place.self = 0; place.self < 5; ++place.self) {
    const Ring ring({.order = "bandwidth"}, rate, place);
    EXPECT_EQ(ring.circle({.workers = workers, .members = workers, .server = {}}),
              (std::vector<Rank>{0, 3, 2, 4}));
    EXPECT_EQ(ring.circle({.workers = workers, .members = left, .server = {}}),
              (std::vector<Rank>{0, 2, 4}));
  }
}

// A server would spare them the slow hop from 2 to 0.
TEST(RingOrder, AServerStandsNowhere) {
  auto members = std::make_shared<Members>(Members{{"a"}, {"hub"}, {"b"}, {"c"}});
  members->at(1).roles = std::uint8_t(Role::server);
  const Place place{.members = members, .layout = Layout::flat(1)};
  const RateBelief rate = [](Rank from, Rank to) {
    if (from == 1 || to == 1) return 1000.0;
    if (from == 2 && to == 0) return 1.0;
    return (from == 0 && to == 3) || (from == 3 && to == 2) ? 10.0 : 5.0;
  };
  const std::vector<Rank> workers = {0, 2, 3};
  EXPECT_EQ(Ring({.order = "bandwidth"}, rate, place)
                .circle({.workers = workers, .members = workers, .server = {}}),
            workers);
}

TEST(RingOrder, IsByRankIfNotAskedForOrIfNothingIsBelieved) {
  const Place place{.members = std::make_shared<Members>(Members{{"a"}, {"b"}, {"c"}}),
                    .layout = Layout::flat(1)};
  const std::vector<Rank> all = {0, 1, 2};
  const GroupMembers team{.workers = all, .members = all, .server = {}};
  const RateBelief backwards = [](Rank from, Rank to) { return from > to ? 2.0 : 1.0; };
  EXPECT_EQ(Ring({.order = "bandwidth"}, backwards, place).circle(team),
            (std::vector<Rank>{0, 2, 1}));
  EXPECT_EQ(Ring({.order = "id"}, backwards, place).circle(team), all);
  EXPECT_EQ(Ring({.order = "bandwidth"}, RateBelief{}, place).circle(team), all);
}

}  // namespace

}  // namespace longhaul::overlay
