// One node that has come back, fed by hand. Whole jobs in which nodes come back: tests/.
#include <gtest/gtest.h>

#include "longhaul/overlay/testing/fed_node.h"

namespace longhaul::overlay {
namespace {

using testing::ExchangeConfig;
using testing::FedNode;

using testing::Floats;
using testing::kLength;
using testing::Ranks;

using Standings = std::vector<Report::Standing>;

Standings rounds(Round count) { return {{0, count}}; }

// Rank 2 of four workers, back in epoch 1.
struct Newcomer : ::testing::Test {
  void let_in_at(Round zero, Round one, Round three) {
    node.let_in(2);
    ASSERT_TRUE(node.report(0, rounds(zero)) && node.report(1, rounds(one)) &&
                node.report(3, rounds(three)));
  }
  // Round 6, of which it has the mean in the end.
  void have_a_mean() {
    let_in_at(6, 6, 6);
    node.begin(6, /*weight=*/0);
    node.bring_mean(6, /*with_roster=*/false);
    ASSERT_TRUE(node.roster(0, 6, 3, {0b1011}));
  }
  FedNode node{2, {}, /*incarnation=*/1};
};

TEST_F(Newcomer, TheRoundThatRunsIsThatOfWhoHasTheMostMeans) {
  EXPECT_FALSE(node.next_round()) << "not let in yet";
  node.let_in(2);
  const auto reports = FedNode::those<Report>(node.take_sends());
  ASSERT_EQ(reports.size(), 3u);
  for (const auto& [to, report] : reports) EXPECT_TRUE(report.standings.empty());
  ASSERT_TRUE(node.report(0, rounds(5)));
  ASSERT_TRUE(node.report(1, rounds(6)));
  EXPECT_FALSE(node.next_round()) << "rank 3 may have more";
  ASSERT_TRUE(node.report(3, rounds(5)));
  EXPECT_EQ(node.next_round(), 6u);
  EXPECT_EQ(node.next_round(/*range=*/1), 0u) << "nobody has had a mean of it";
  EXPECT_TRUE(node.take_sends().empty()) << "it fetches nothing";
  node.begin(6, /*weight=*/0);
  const auto shares = FedNode::those<Announcement>(node.take_sends());
  ASSERT_EQ(shares.size(), 3u);
  for (const auto& [to, share] : shares) {
    EXPECT_EQ(share.vector, (CodecKey{{6, 0, 0}, 2}));
    EXPECT_EQ(share.weight, 0);
  }
}

// Whoever stands in brings nothing, and has the mean of the others all the same.
TEST_F(Newcomer, WithAMeanItIsOneOfThem) {
  have_a_mean();
  const auto outcome = node.poll(6);
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->values, (Floats{6, 6, 6, 6, 5, 5, 6, 6}));
  EXPECT_EQ(outcome->counted, (Ranks{0, 1, 3}));
  EXPECT_EQ(node.next_round(), 7u);
  node.take_sends();
  node.lose(3);
  for (const auto& [to, report] : FedNode::those<Report>(node.take_sends())) {
    ASSERT_EQ(report.standings.size(), 1u);
    EXPECT_EQ(report.standings[0].rounds, 7u);
  }
  EXPECT_FALSE(node.report(0, rounds(9), 2)) << "no stranger to the run any more";
  EXPECT_TRUE(node.report(0, rounds(7), 2));
}

// Shares are small and may overtake the reports.
TEST_F(Newcomer, AShareThatOvertakesTheReportsTellsTheRound) {
  node.let_in(2);
  ASSERT_TRUE(node.share_of(0, 6));
  EXPECT_FALSE(node.share_of(1, 8)) << "two rounds away from another's";
  ASSERT_TRUE(node.share_of(1, 6));
  EXPECT_FALSE(node.next_round());
  for (const Rank rank : {0u, 1u, 3u}) ASSERT_TRUE(node.report(rank, rounds(6)));
  EXPECT_EQ(node.next_round(), 6u);
  node.begin(6, /*weight=*/0);
  EXPECT_FALSE(node.share_of(0, 6)) << "it was heard";
  ASSERT_TRUE(node.share_of(3, 6));
  for (const Rank rank : {0u, 1u, 3u}) {
    EXPECT_TRUE(node.piece(rank, 6, Phase::part, Coding::up, 2, 5));
    EXPECT_TRUE(node.piece(rank, 6, Phase::mean, Coding::down, rank, 6));
  }
  ASSERT_TRUE(node.roster(0, 6, 3, {0b1011}));
  EXPECT_TRUE(node.poll(6));
}

// When all have reported, the round is known.
TEST_F(Newcomer, NoShareTellsTheRoundToWhoKnowsIt) {
  let_in_at(6, 6, 5);
  EXPECT_FALSE(node.share_of(0, 60));
  EXPECT_EQ(node.next_round(), 6u);
  EXPECT_TRUE(node.share_of(0, 6));
}

TEST_F(Newcomer, AShareThatLiedAboutTheRoundIsForgotten) {
  node.let_in(2);
  ASSERT_TRUE(node.share_of(0, 60));
  for (const Rank rank : {0u, 1u, 3u}) ASSERT_TRUE(node.report(rank, rounds(6)));
  EXPECT_EQ(node.next_round(), 6u);
  FedNode honest(2, {}, 1);
  honest.let_in(2);
  for (const Rank rank : {0u, 1u, 3u}) ASSERT_TRUE(honest.report(rank, rounds(6)));
  for (FedNode* one : {&node, &honest}) one->begin(6, /*weight=*/0);
  EXPECT_EQ(node.saved(), honest.saved());
}

// The one who had most may be lost with what it had: nobody else knows of that round.
TEST_F(Newcomer, WithoutAMeanItBeginsAnewInEveryView) {
  for (const bool begun : {true, false}) {
    FedNode one(2, {}, 1);
    one.let_in(2);
    ASSERT_TRUE(one.report(0, rounds(6)) && one.report(1, rounds(6)) && one.report(3, rounds(7)));
    EXPECT_EQ(one.next_round(), 7u);
    if (begun) one.begin(7, /*weight=*/0);
    one.take_sends();
    one.lose(3);
    EXPECT_FALSE(one.next_round());
    for (const auto& [to, report] : FedNode::those<Report>(one.take_sends()))
      EXPECT_TRUE(report.standings.empty());
    ASSERT_TRUE(one.report(0, rounds(6), 2) && one.report(1, rounds(6), 2));
    EXPECT_EQ(one.next_round(), 6u);
    EXPECT_TRUE(one.take_sends().empty());
    one.begin(6, /*weight=*/0);
    EXPECT_EQ(FedNode::those<Announcement>(one.take_sends()).size(), 2u);
  }
}

// Its strategy may not know that it stands in already.
TEST_F(Newcomer, WhoStandsInStandsInOnce) {
  let_in_at(6, 6, 6);
  node.begin(6, /*weight=*/0);
  node.take_sends();
  node.begin(6, /*weight=*/0);
  EXPECT_TRUE(node.take_sends().empty());
}

TEST(NewcomerOfHubs, SharesAloneTellAServerTheRound) {
  FedNode server(2, {.kind = "hub", .workers = 2, .server = true}, 1);
  server.let_in(2);
  EXPECT_TRUE(server.take_sends().empty()) << "it is no member";
  for (const Rank rank : {0u, 1u}) ASSERT_TRUE(server.share_of(rank, 6));
  for (const Rank rank : {0u, 1u})
    for (const std::size_t index : {0u, 1u})
      ASSERT_TRUE(server.piece(rank, 6, Phase::part, Coding::up, index, float(2 * rank)));
  const auto means = FedNode::pieces(server.take_sends());
  ASSERT_EQ(means.size(), 4u);
  for (const auto& mean : means) EXPECT_EQ(mean.body, testing::floats(4, 1));
  EXPECT_EQ(server.late(), 0);
}

TEST_F(Newcomer, GoesOnFromWhereItWasStopped) {
  node.let_in(2);
  ASSERT_TRUE(node.share_of(0, 6));
  ASSERT_TRUE(node.report(0, rounds(6)) && node.report(1, rounds(7)));
  node.save_and_load();
  EXPECT_FALSE(node.next_round());
  EXPECT_FALSE(node.report(1, rounds(7))) << "heard before";
  ASSERT_TRUE(node.report(3, rounds(6)));
  EXPECT_EQ(node.next_round(), 7u);
  node.save_and_load();
  EXPECT_EQ(node.next_round(), 7u);
  node.lose(3);
  EXPECT_FALSE(node.next_round()) << "what was borrowed before the stop is given back after it";
}

TEST_F(Newcomer, AMeanThatItHasHadIsItsOwnAfterAStop) {
  have_a_mean();
  node.save_and_load();
  EXPECT_EQ(node.next_round(), 7u);
  node.take_sends();
  node.lose(3);
  for (const auto& [to, report] : FedNode::those<Report>(node.take_sends()))
    EXPECT_EQ(report.standings.size(), 1u);
}

}  // namespace
}  // namespace longhaul::overlay
