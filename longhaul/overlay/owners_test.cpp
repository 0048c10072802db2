// One attempt of direct or hub, fed by hand.
#include "longhaul/overlay/plan_attempt.h"

#include <gtest/gtest.h>

#include "longhaul/overlay/testing/paper_node.h"

namespace longhaul::overlay {
namespace {

using testing::Table;
using Floats = std::vector<float>;

constexpr std::uint64_t kOwned = 12;

// Rank `self` of three workers, four values each in two pieces: 0 and 1 are of rank 0, 2 and 3 of
// rank 1, 4 and 5 of rank 2. Or of a hub whose server is rank 3 and owns all six.
struct Node : testing::PaperNode<PlanAttempt> {
  explicit Node(Rank self, ReducePlan::How how = {}, std::optional<Rank> server = {})
      : PaperNode(std::make_unique<Table>(GroupMembers{self, 0, {0, 1, 2}, {0, 1, 2}, server},
                                          kOwned, server ? 1 : 3, 2,
                                          [how](const auto& grid, const auto& team) mutable {
                                            how.sums = Sums::by_rank;
                                            return stars(grid, team, how);
                                          }),
                  0, false) {}
  using PaperNode::give;
  bool give(Rank from, std::size_t piece, double weight, float value) {
    return give(from, own(from), piece, weight, value);
  }
  std::size_t messages(Phase phase) const {  // posted
    std::size_t count = 0;
    for (const Outgoing& out : context.posts)
      if (out.key.phase == std::uint8_t(phase)) count += out.ranges.size();
    return count;
  }
};

// A part that does not weigh what its sender promised would shift the mean of one piece alone.
TEST(Owners, APartMustWeighWhatItsShareSays) {
  Node node(0);
  node.contribute(1);
  ASSERT_TRUE(node.share(1, 3) && node.share(2, 0));
  EXPECT_FALSE(node.give(1, 0, 300, 1000));
  EXPECT_TRUE(node.context.means.empty());
  EXPECT_TRUE(node.give(1, 0, 3, 4)) << "the right one still counts";
  EXPECT_EQ(node.context.means.at(0), (Floats{3, 3}));
}

TEST(Owners, SharesOfStrangersAndForThoseWhoOwnNothingAreRefused) {
  Node owner(0), worker(1, {}, 0);
  EXPECT_FALSE(owner.share(3, 1)) << "no member";
  ASSERT_TRUE(owner.share(1, 1));
  EXPECT_FALSE(owner.share(1, 1)) << "again";
  owner.contribute(1);
  EXPECT_FALSE(owner.share(0, 1)) << "in the name of this node";
  worker.contribute(1);
  EXPECT_FALSE(worker.share(2, 1)) << "the hub owns all";
  ASSERT_TRUE(owner.share(2, 0));
  EXPECT_FALSE(owner.admits(2, owner.own(2), 0)) << "a part of one who brings nothing";
}

TEST(Owners, AMeanComesFromItsOwnerInItsCodingAndNotTooEarly) {
  Node node(0);
  EXPECT_FALSE(node.admits(1, node.mean(1), 2)) << "before this node's part";
  node.contribute(1);
  EXPECT_FALSE(node.admits(2, node.mean(2), 2)) << "not its piece";
  EXPECT_FALSE(node.admits(1, node.mean(2), 2)) << "in another's name";
  TransferKey key = node.mean(1);
  for (const Coding coding : {Coding::up, Coding::exact}) {
    key.coding = coding;
    EXPECT_FALSE(node.admits(1, key, 2)) << "in another coding";
  }
  EXPECT_TRUE(node.admits(1, node.mean(1), 2));
  Node exact(0, {.means = Coding::exact});
  exact.contribute(1);
  EXPECT_FALSE(exact.admits(1, exact.mean(1), 2));
  key.coding = Coding::exact;
  EXPECT_TRUE(exact.admits(1, key, 2));
}

// The bits that others read are the mean, for its owner too. PaperContext cuts what is behind the
// point: (0 + 3) / 2 = 1.5.
TEST(Owners, TheOwnerUsesWhatTheOthersWillRead) {
  Node node(0);
  node.contribute(1);
  ASSERT_TRUE(node.share(1, 1) && node.share(2, 0));
  ASSERT_TRUE(node.give(1, 0, 1, 3));
  EXPECT_EQ(node.context.means.at(0), (Floats{1, 1}));
  EXPECT_EQ(node.sent(node.mean(0), 0), (Floats{1, 1}));
}

// A vector more would be kept if each owner wrote its own part down when the first part comes.
TEST(Owners, ItsOwnPartIsNotKeptBesideTheContribution) {
  Node node(1);
  node.contribute(1);
  ASSERT_TRUE(node.share(0, 1) && node.share(2, 1));
  ASSERT_TRUE(node.give(2, 2, 1, 5));
  EXPECT_EQ(node.context.own_asked[2], 0) << "rank 0 is added before it";
  ASSERT_TRUE(node.give(0, 2, 1, 0));
  EXPECT_EQ(node.context.own_asked[2], 1);
  EXPECT_EQ(node.context.means.at(2), (Floats{2, 2}));
}

TEST(Owners, SequentialMeansGoOutWhenAllAreFormed) {
  for (const bool streamed : {true, false}) {
    Node node(0, {.streamed = streamed});
    node.contribute(1);
    ASSERT_TRUE(node.share(1, 1) && node.share(2, 0));
    ASSERT_TRUE(node.give(1, 0, 1, 2));
    EXPECT_EQ(node.messages(Phase::mean), streamed ? 2u : 0u);
    EXPECT_FALSE(node.attempt.reduced());
    ASSERT_TRUE(node.give(1, 1, 1, 2));
    EXPECT_EQ(node.messages(Phase::mean), 4u) << "two pieces to two others";
    EXPECT_TRUE(node.attempt.reduced());
    EXPECT_EQ(node.context.rosters().size(), 2u) << "once to each other";
    EXPECT_EQ(node.context.contributors_known.size(), 1u);
  }
}

// A server that is no member sends every mean to all, one that is to all but itself; then the
// bytes are gone.
TEST(Owners, AMeanIsKeptUntilTheLastOtherHasIt) {
  for (const Rank server : {3u, 0u}) {
    Node node(server, {}, server);
    if (server == 0) node.contribute(1);
    const std::vector<Rank> givers =
        server == 0 ? std::vector<Rank>{2, 1} : std::vector<Rank>{2, 1, 0};
    for (const Rank rank : givers) ASSERT_TRUE(node.share(rank, 1));
    for (std::size_t piece = 0; piece < 6; ++piece)
      for (const Rank rank : givers) ASSERT_TRUE(node.give(rank, piece, 1, float(rank)));
    EXPECT_TRUE(node.attempt.reduced());
    EXPECT_EQ(node.context.means.size(), server == 0 ? 6u : 0u);
    const std::size_t others = server == 0 ? 2 : 3;
    ASSERT_EQ(node.messages(Phase::mean), 6 * others);
    for (std::size_t piece = 0; piece < 6; ++piece) {
      for (std::size_t i = 0; i < others; ++i) {
        EXPECT_FALSE(node.attempt.drained());
        EXPECT_EQ(node.sent(node.mean(server), piece), (Floats{1, 1}));
      }
    }
    EXPECT_TRUE(node.attempt.drained());
  }
}

// Nobody's part wakes the pieces of one who is alone with a contribution.
TEST(Owners, WhoContributesAloneGetsItsOwnBack) {
  for (const bool first : {true, false}) {
    Node node(1);
    if (first) node.contribute(5);
    ASSERT_TRUE(node.share(0, 0) && node.share(2, 0));
    if (!first) node.contribute(5);
    EXPECT_TRUE(node.attempt.reduced());
    for (const std::size_t piece : {2u, 3u})
      EXPECT_EQ(node.context.means.at(piece), (Floats{1, 1}));
  }
}

// With a window a worker sends a piece more for each mean that is back; it remembers how many, also
// when it was stopped in between.
TEST(Owners, AWindowOpensByOneForEachMeanAlsoAfterLoading) {
  const ReducePlan::How options{.window = 2};
  for (const double weight : {1.0, 0.0}) {
    Node node(1, options, 3);
    node.contribute(weight);
    EXPECT_EQ(node.messages(Phase::part), weight > 0 ? 2u : 0u);
    for (std::size_t piece = 0; piece < 6; ++piece) {
      Node loaded(1, options, 3);
      ASSERT_NO_FATAL_FAILURE(loaded.load(node));
      for (Node* one : {&node, &loaded}) {
        one->context.posts.clear();
        ASSERT_TRUE(one->admits(3, one->mean(3), piece));
        ASSERT_TRUE(one->give(3, one->mean(3), piece, 1, 1));
        const std::size_t more = weight > 0 && piece < 4 ? 1 : 0;
        ASSERT_EQ(one->messages(Phase::part), more) << piece;
        if (more > 0) EXPECT_EQ(one->context.posts[0].ranges[0], node.table->grid.range(piece + 2));
      }
    }
  }
}

TEST(Owners, SaysWhomItWaitsFor) {
  Node node(0);
  node.contribute(1);
  EXPECT_EQ(node.attempt.waiting_for({}), "round 0: parts of ranks 1, 2");
  ASSERT_TRUE(node.share(1, 0));
  EXPECT_EQ(node.attempt.waiting_for({}), "round 0: parts of rank 2");
  ASSERT_TRUE(node.share(2, 1));
  ASSERT_TRUE(node.give(2, 0, 1, 1) && node.give(2, 1, 1, 1));
  EXPECT_EQ(node.attempt.waiting_for({true, true, false, false, true, true}),
            "round 0: means of rank 1");
  EXPECT_EQ(node.attempt.waiting_for(std::vector<bool>(6, true)), "round 0: roster of rank 0");
}

}  // namespace
}  // namespace longhaul::overlay
