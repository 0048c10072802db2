// One node of an exchange whose view changes, fed by hand: what the others say is made up here.
// Whole jobs that lose members at every event: agreed_test.cpp.
#include <gtest/gtest.h>

#include "longhaul/base/testing/result.h"
#include "longhaul/overlay/testing/fed_node.h"

namespace longhaul::overlay {
namespace {

using testing::ExchangeConfig;
using testing::FedNode;
using testing::Floats;
using testing::kLength;
using testing::Ranks;
using testing::Sending;
using Standings = std::vector<Report::Standing>;

// Rank 2 of four workers, with rank 3 lost in its round 0.
struct Recovery : ::testing::Test {
  void lose_3(bool begin = true) {
    if (begin) node.begin(0);
    before = node.take_sends();
    node.lose(3);
  }
  // With the mean of round 0, which it has taken.
  void lose_3_with_the_mean() {
    node.begin(0);
    node.bring_mean(0);
    ASSERT_TRUE(node.poll(0));
    node.take_sends();
    node.lose(3);
    node.take_sends();
  }
  FedNode node{2};
  std::vector<Send> before;
};

const std::vector<Report::Standing> kNothing, kRound0 = {{0, 1}};

// Whoever is not told waits for ever. Control, so that it overtakes what is queued.
TEST_F(Recovery, AllSurvivorsAreToldOfEveryMeanThatIsHere) {
  node.begin(0);
  node.bring_mean(0);
  ASSERT_TRUE(node.poll(0));
  node.begin(0, /*weight=*/0, /*range=*/1);
  for (const Rank rank : {0u, 1u, 3u}) ASSERT_TRUE(node.share_of(rank, 0, 0, 1));
  ASSERT_TRUE(node.hear(0, Contributors{0, {{0, 0, 1}, 0}, 0, {}}));
  ASSERT_TRUE(node.poll(0, 1));
  node.begin(0, 2, /*range=*/2);
  node.begin(1);
  node.take_sends();
  node.lose(3);
  const auto sends = node.take_sends();
  Ranks told;
  for (const auto& [to, report] : FedNode::those<Report>(sends)) {
    told.push_back(to);
    EXPECT_EQ(report.epoch, 1u);
    EXPECT_EQ(report.group, 0u);
    EXPECT_TRUE(report.members.empty()) << "all workers";
    ASSERT_EQ(report.standings.size(), 2u) << "of range 2 it has nothing";
    for (const std::uint32_t range : {0u, 1u}) {
      EXPECT_EQ(report.standings[range].range, range);
      EXPECT_EQ(report.standings[range].rounds, 1u);
    }
  }
  EXPECT_EQ(told, (Ranks{0, 1}));
  EXPECT_EQ(sends.size(), 2u) << "and nothing else";
  for (const Send& send : sends) EXPECT_EQ(send.service.service_class(), kControl.service_class());
  EXPECT_EQ(node.waiting_for(), "epoch 1: reports of ranks 0, 1");
}

// who said that it has no mean is frozen until all have spoken; then all repeat with the
// same numbers, in the same bytes, and the same weight, in the new epoch.
TEST_F(Recovery, R2_1_IfNobodyHasTheMeanAllRepeatWithTheSameBytes) {
  for (const bool begun_before : {true, false}) {
    FedNode lossy(2, {.lossy = true}), whole(2, {.lossy = true});
    whole.begin(0);
    const auto first = FedNode::pieces(whole.take_sends());
    ASSERT_EQ(first.size(), 3u);
    if (begun_before) lossy.begin(0);
    lossy.lose(3);
    if (!begun_before) lossy.begin(0);
    lossy.take_sends();
    ASSERT_TRUE(lossy.report(1, kNothing));
    EXPECT_TRUE(lossy.take_sends().empty()) << "frozen";
    ASSERT_TRUE(lossy.report(0, kNothing));
    const auto sends = lossy.take_sends();
    const auto shares = FedNode::those<Announcement>(sends);
    ASSERT_EQ(shares.size(), 2u);
    for (const auto& [to, share] : shares) {
      EXPECT_EQ(share.epoch, 1u);
      EXPECT_EQ(share.vector, (CodecKey{{0, 0, 0}, 2}));
      EXPECT_EQ(share.weight, 2);
    }
    // The lost rank's piece is the fourth: of members 0, 1 and 2 it goes to the first.
    std::map<Range, std::pair<Rank, Buffer>> by_range;
    for (const Sending& one : FedNode::pieces(sends)) {
      EXPECT_EQ(one.piece.key.epoch, 1u);
      by_range[one.piece.range] = {one.to, one.body};
    }
    ASSERT_EQ(by_range.size(), 3u);
    for (const Sending& one : first) EXPECT_EQ(by_range.at(one.piece.range).second, one.body);
    EXPECT_EQ(by_range.at({6, 2}).first, 0u);
  }
}

// if somebody has it, the round is not repeated; the share of whoever was lost counts. The
// lowest is asked, whoever speaks first, and nobody beside it.
TEST_F(Recovery, R2_1_IfSomebodyHasTheMeanItIsFetchedFromTheLowest) {
  for (const Ranks& having : std::vector<Ranks>{{0}, {1}, {0, 1}, {1, 0}}) {
    for (const Ranks& order : std::vector<Ranks>{{0, 1}, {1, 0}}) {
      FedNode one(2);
      one.begin(0);
      one.lose(3);
      one.take_sends();
      for (const Rank rank : order) {
        const bool has = std::find(having.begin(), having.end(), rank) != having.end();
        ASSERT_TRUE(one.report(rank, has ? kRound0 : std::vector<Report::Standing>{{0, 0}}));
      }
      const Rank source = *std::min_element(having.begin(), having.end());
      const auto sends = one.take_sends();
      ASSERT_EQ(sends.size(), 1u) << "no share and no piece";
      ASSERT_EQ(FedNode::those<Fetch>(sends).size(), 1u);
      EXPECT_EQ(FedNode::those<Fetch>(sends)[0].first, source);
      EXPECT_EQ(FedNode::those<Fetch>(sends)[0].second.epoch, 1u);
      EXPECT_EQ(FedNode::those<Fetch>(sends)[0].second.vector.round, 0u);
      EXPECT_EQ(one.waiting_for(), "round 0: repair from " + std::to_string(source));
      ASSERT_TRUE(one.roster(source, 0, 5, {0b1111}));
      for (const std::size_t index : {3u, 0u, 2u}) ASSERT_TRUE(one.repair(source, 0, index));
      EXPECT_FALSE(one.poll(0)) << "a piece is missing";
      ASSERT_TRUE(one.repair(source, 0, 1));
      const auto outcome = good(one.poll(0));
      EXPECT_EQ(outcome->counted, (Ranks{0, 1, 2, 3}));
      EXPECT_EQ(outcome->weight, 5);
      EXPECT_EQ(outcome->values, Floats(kLength, 7));
      one.begin(1);
      EXPECT_EQ(FedNode::those<Announcement>(one.take_sends()).size(), 2u) << "and it goes on";
    }
  }
}

// From whom it asked, what it asked for, as fp32.
TEST_F(Recovery, ARepairComesFromWhoWasAskedAndOnce) {
  lose_3();
  ASSERT_FALSE(node.repair(0, 0, 0)) << "nobody was asked yet";
  ASSERT_TRUE(node.report(0, kRound0) && node.report(1, kRound0));
  EXPECT_FALSE(node.repair(1, 0, 0)) << "another was asked";
  EXPECT_FALSE(node.repair(0, 1, 0)) << "for another round";
  EXPECT_FALSE(node.piece(0, 0, Phase::repair, Coding::down, 0, 7)) << "as fp32";
  EXPECT_FALSE(node.piece(0, 0, Phase::mean, Coding::down, 0, 7)) << "as repair";
  EXPECT_FALSE(node.roster(1, 0, 5, {0b1111})) << "another was asked";
  EXPECT_FALSE(node.roster(0, 0, 5, {0b11111})) << "a rank that is not in the job";
  ASSERT_TRUE(node.roster(0, 0, 5, {0b1111}));
  EXPECT_FALSE(node.roster(0, 0, 5, {0b1111})) << "again";
  ASSERT_TRUE(node.repair(0, 0, 0));
  EXPECT_FALSE(node.repair(0, 0, 0)) << "again";
}

// who has the mean keeps it over the view and serves it, as it stands, to each who asks,
// once an epoch.
TEST_F(Recovery, R2_1_WhoHasTheMeanServesItOnceToEachInEveryEpoch) {
  lose_3_with_the_mean();
  for (const Epoch epoch : {1u, 2u}) {
    for (const Rank to : epoch == 1 ? Ranks{1, 0} : Ranks{1}) {
      ASSERT_TRUE(node.fetch(to, 0, epoch));
      const auto sends = node.take_sends();
      const auto rosters = FedNode::those<Contributors>(sends);
      ASSERT_EQ(rosters.size(), 1u);
      EXPECT_EQ(rosters[0].first, to);
      EXPECT_EQ(rosters[0].second.epoch, epoch);
      EXPECT_EQ(rosters[0].second.counted, (std::vector<std::uint8_t>{0b1111})) << "the lost, too";
      EXPECT_EQ(rosters[0].second.weight, 5);
      const TransferKey key{epoch, {{0, 0, 0}, 2}, std::uint8_t(Phase::repair), Coding::exact};
      std::set<Range> ranges;
      for (const Sending& one : FedNode::pieces(sends)) {
        EXPECT_EQ(one.to, to);
        EXPECT_EQ(one.piece.key, key);
        const bool own = one.piece.range == Range{4, 2};  // (5 + 5 + 5 + 2 * 10) / 5
        EXPECT_EQ(one.body, testing::floats(2, own ? 7 : 6));
        ranges.insert(one.piece.range);
      }
      EXPECT_EQ(ranges, (std::set<Range>{{0, 2}, {2, 2}, {4, 2}, {6, 2}}));
      EXPECT_FALSE(node.fetch(to, 0, epoch)) << "again";
      EXPECT_TRUE(node.take_sends().empty());
    }
    if (epoch == 1) node.lose(0), node.take_sends();
  }
}

TEST_F(Recovery, FetchesOfWhatIsNotHereAreRefused) {
  lose_3_with_the_mean();
  const Buffer before = node.saved();
  EXPECT_FALSE(node.fetch(3, 0)) << "lost";
  EXPECT_FALSE(node.fetch(0, 1)) << "another round";
  EXPECT_FALSE(node.fetch(0, 0, 2)) << "an epoch to come";
  EXPECT_FALSE(node.hear(0, Fetch{1, {0, 0, 7}})) << "another range";
  EXPECT_FALSE(node.hear(0, Fetch{1, {0, 3, 0}})) << "another group";
  FedNode without(2);
  without.begin(0);
  without.lose(3);
  without.take_sends();
  EXPECT_FALSE(without.fetch(0, 0)) << "no mean";
  EXPECT_TRUE(without.take_sends().empty());
  EXPECT_TRUE(node.take_sends().empty());
  EXPECT_EQ(node.saved(), before) << "without effect";
}

// A mean of nobody has no numbers to fetch.
TEST_F(Recovery, AnEmptyMeanIsServedAsARosterOfNobody) {
  node.begin(0, /*weight=*/0);
  for (const Rank rank : {0u, 1u, 3u}) ASSERT_TRUE(node.share_of(rank, 0, 0));
  ASSERT_TRUE(node.roster(0, 0, 0, {}));
  ASSERT_TRUE(node.poll(0));
  node.lose(3);
  node.take_sends();
  ASSERT_TRUE(node.fetch(1, 0));
  const auto sends = node.take_sends();
  ASSERT_EQ(sends.size(), 1u);
  ASSERT_EQ(FedNode::those<Contributors>(sends).size(), 1u);
  EXPECT_TRUE(FedNode::those<Contributors>(sends)[0].second.counted.empty());
}

// Pieces of two attempts are not one mean: the next may count others.
TEST_F(Recovery, R2_1_HalfAMeanIsForgotten) {
  node.begin(0);
  node.bring_mean(0, /*with_roster=*/false);
  node.lose(3);
  node.take_sends();
  EXPECT_FALSE(node.fetch(0, 0)) << "of half a mean";
  ASSERT_TRUE(node.report(0, kNothing) && node.report(1, kNothing));
  node.save_and_load();  // with its parts sent again
  for (const Rank rank : {0u, 1u}) {
    ASSERT_TRUE(node.share_of(rank, 0));
    ASSERT_TRUE(node.piece(rank, 0, Phase::part, Coding::up, 2, 2));
    ASSERT_TRUE(node.piece(rank, 0, Phase::mean, Coding::down, rank, 8));
  }
  ASSERT_TRUE(node.piece(0, 0, Phase::mean, Coding::down, 3, 9)) << "dealt to rank 0";
  EXPECT_FALSE(node.poll(0));
  ASSERT_TRUE(node.roster(0, 0, 4, {0b0111}));
  const auto outcome = good(node.poll(0));
  EXPECT_EQ(outcome->counted, (Ranks{0, 1, 2}));
  EXPECT_EQ(outcome->values, (Floats{8, 8, 8, 8, 6, 6, 9, 9})) << "(2 + 2 + 2 * 10) / 4 is 6";
}

TEST_F(Recovery, ReportsThatCannotBeHaveNoEffect) {
  lose_3();
  FedNode idle(2);
  ASSERT_TRUE(idle.share_of(0, 0));
  idle.lose(3);
  EXPECT_FALSE(idle.report(0, kRound0)) << "a mean of a round that this node has not begun";
  const Buffer before = node.saved();
  EXPECT_FALSE(node.report(0, kNothing, 2)) << "of an epoch to come";
  EXPECT_FALSE(node.report(3, kNothing)) << "of the lost";
  EXPECT_FALSE(node.report(2, kNothing)) << "in the name of this node";
  EXPECT_FALSE(node.report(0, {{0, 2}})) << "of a round not begun";
  EXPECT_FALSE(node.report(0, {{0, ~std::uint64_t{0}}}));
  EXPECT_FALSE(node.report(0, {{5, 1}})) << "of a range nobody has spoken of";
  EXPECT_FALSE(node.report(0, {{0, 0}, {0, 1}})) << "with a repetition";
  EXPECT_FALSE(node.report(0, std::vector<Report::Standing>(65))) << "too long";
  EXPECT_FALSE(node.hear(0, Report{1, 0, {3}, kNothing})) << "of a group of others";
  EXPECT_EQ(node.saved(), before);
  ASSERT_TRUE(node.report(0, {{0, 0}, {5, 0}}));
  EXPECT_FALSE(node.report(0, kRound0)) << "again";
  ASSERT_TRUE(node.report(1, kNothing));
  EXPECT_EQ(FedNode::those<Announcement>(node.take_sends()).size(), 2u)
      << "nobody has it: all repeat";
  EXPECT_FALSE(node.report(1, kRound0)) << "when all are in";
}

// What is still on its way when the next view comes must not count there: a peer that had nothing
// then may have the mean now.
TEST_F(Recovery, WhatWasSaidInAnOlderEpochIsLate) {
  lose_3();
  node.lose(0);
  node.take_sends();
  EXPECT_TRUE(node.report(1, kNothing, 1));
  EXPECT_TRUE(node.report(1, kRound0, 0));
  EXPECT_EQ(node.late(), 2);
  EXPECT_TRUE(node.take_sends().empty());
  EXPECT_EQ(node.waiting_for(), "epoch 2: reports of rank 1");
  FedNode having(2);
  having.begin(0);
  having.bring_mean(0);
  ASSERT_TRUE(having.poll(0));
  having.lose(3);
  having.lose(0);
  having.take_sends();
  EXPECT_TRUE(having.fetch(1, 0, 1));
  EXPECT_EQ(having.late(), 1);
  EXPECT_TRUE(having.take_sends().empty());
  EXPECT_TRUE(having.fetch(1, 0, 2)) << "asked in this epoch it has not been served yet";
}

// again, with the newest epoch: nobody waits for the lost, and another is asked.
TEST_F(Recovery, R2_1_AFurtherLossBeginsAgain) {
  lose_3();
  ASSERT_TRUE(node.report(1, kRound0));
  node.lose(0);  // its report never came
  EXPECT_EQ(node.waiting_for(), "epoch 2: reports of rank 1");
  node.take_sends();
  ASSERT_TRUE(node.report(1, kRound0, 2));
  EXPECT_EQ(FedNode::those<Fetch>(node.take_sends()).size(), 1u);

  FedNode other(2);
  other.begin(0);
  other.lose(3);
  ASSERT_TRUE(other.report(0, kRound0) && other.report(1, kRound0));
  ASSERT_TRUE(other.roster(0, 0, 5, {0b1111}));
  ASSERT_TRUE(other.repair(0, 0, 0, 1));
  other.lose(0);  // in the midst of its repair
  other.take_sends();
  ASSERT_TRUE(other.report(1, kRound0, 2));
  const auto fetches = FedNode::those<Fetch>(other.take_sends());
  ASSERT_EQ(fetches.size(), 1u);
  EXPECT_EQ(fetches[0].first, 1u);
  EXPECT_EQ(fetches[0].second.epoch, 2u);
  ASSERT_TRUE(other.roster(1, 0, 5, {0b1111}));
  for (const std::size_t index : {0u, 1u, 2u, 3u}) ASSERT_TRUE(other.repair(1, 0, index));
  EXPECT_EQ(other.poll(0)->values, Floats(kLength, 7));
}

// Nobody is left to ask: its own vector is the mean.
TEST_F(Recovery, TheLastSurvivorGoesOnAlone) {
  lose_3();
  node.lose(0);
  EXPECT_FALSE(node.poll(0));
  node.take_sends();
  node.lose(1);
  const auto outcome = good(node.poll(0));
  EXPECT_EQ(outcome->values, Floats(kLength, 10));
  EXPECT_EQ(outcome->counted, Ranks{2});
  EXPECT_EQ(outcome->weight, 2);
  EXPECT_TRUE(node.take_sends().empty());
}

// What waits for a link would be asked for when its numbers are gone, and be late where it comes.
TEST_F(Recovery, NothingOfAnOlderEpochGoesOutAnyMore) {
  node.plug(true);
  node.begin(0);
  node.begin(0, 2, 1), node.bring_mean(0);  // means of piece 2 wait behind parts of both vectors
  node.lose(3);
  node.take_sends();
  node.plug(false);
  EXPECT_TRUE(FedNode::pieces(node.take_sends()).empty());
  node.plug(true);
  ASSERT_TRUE(node.fetch(0, 0));
  EXPECT_EQ(FedNode::pieces(node.take_sends()).size(), 2u) << "two more wait";
  node.lose(1);
  node.plug(false);
  EXPECT_TRUE(FedNode::pieces(node.take_sends()).empty());
  EXPECT_TRUE(node.fetch(0, 0, 2));
  EXPECT_EQ(FedNode::pieces(node.take_sends()).size(), 4u) << "whole, in the new epoch";
}

// A run that is stopped while reports, repairs or fetches are awaited.
TEST_F(Recovery, GoesOnFromWhereItWasStopped) {
  lose_3();
  ASSERT_TRUE(node.report(0, kRound0));
  node.save_and_load();
  EXPECT_FALSE(node.report(0, kRound0)) << "heard before";
  node.take_sends();
  ASSERT_TRUE(node.report(1, kNothing));
  EXPECT_EQ(FedNode::those<Fetch>(node.take_sends()).size(), 1u);
  node.save_and_load();
  ASSERT_TRUE(node.roster(0, 0, 5, {0b1111}));
  for (const std::size_t index : {0u, 1u, 2u, 3u}) ASSERT_TRUE(node.repair(0, 0, index));
  ASSERT_TRUE(node.poll(0));
  ASSERT_TRUE(node.fetch(1, 0));
  node.save_and_load();
  EXPECT_FALSE(node.fetch(1, 0)) << "served before";
}

// --- hubs

const ExchangeConfig kHub{.kind = "hub", .workers = 2, .server = true};

// a server that is no member decides nothing. It may have reduced what no survivor has.
TEST(RecoveryOfHubs, R2_1_AServerReducesAgainWhatItHadReduced) {
  FedNode server(2, kHub);
  for (const Rank rank : {0u, 1u}) {
    ASSERT_TRUE(server.share_of(rank, 0));
    for (const std::size_t index : {0u, 1u})
      ASSERT_TRUE(server.piece(rank, 0, Phase::part, Coding::up, index, float(2 * rank)));
  }
  EXPECT_EQ(FedNode::pieces(server.take_sends()).size(), 4u) << "two means to both";
  server.lose(1);
  EXPECT_TRUE(server.take_sends().empty()) << "who is no member reports nothing";
  EXPECT_FALSE(server.report(0, kNothing)) << "and awaits nothing";
  ASSERT_TRUE(server.share_of(0, 0));
  EXPECT_EQ(server.late(), 0);
  for (const std::size_t index : {0u, 1u})
    ASSERT_TRUE(server.piece(0, 0, Phase::part, Coding::up, index, 4));
  const auto means = FedNode::pieces(server.take_sends());
  ASSERT_EQ(means.size(), 2u);
  for (const Sending& mean : means) {
    EXPECT_EQ(mean.piece.key.epoch, 1u);
    EXPECT_EQ(mean.body, testing::floats(4, 4)) << "of the survivor alone";
  }
  ASSERT_TRUE(server.share_of(0, 1)) << "and the next";
  EXPECT_EQ(server.late(), 0);
}

TEST(RecoveryOfHubs, TheLowestWorkerServesInPlaceOfALostServer) {
  for (const Rank self : {0u, 1u}) {
    FedNode node(self, kHub);
    node.begin(0);
    EXPECT_EQ(FedNode::those<Announcement>(node.take_sends()).at(0).first, 2u);
    node.lose(2);
    node.take_sends();
    ASSERT_TRUE(node.report(1 - self, kNothing));
    const auto sends = node.take_sends();
    if (self == 0) {
      EXPECT_TRUE(sends.empty()) << "it has its own share";
      EXPECT_TRUE(node.share_of(1, 0));
    } else {
      EXPECT_EQ(FedNode::those<Announcement>(sends).at(0).first, 0u);
      EXPECT_EQ(FedNode::pieces(sends).size(), 2u);
      EXPECT_FALSE(node.share_of(0, 0));
    }
  }
}

// One node that has come back, fed by hand. Whole jobs in which nodes come back: tests/.

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
  const auto outcome = good(node.poll(6));
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
