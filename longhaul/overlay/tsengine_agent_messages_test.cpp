// What an agent of tsengine makes of notes: orders, announcements, answers, fences; deadlines.
#include <gtest/gtest.h>

#include "longhaul/overlay/testing/agent_node.h"

namespace longhaul::overlay::tsengine {
namespace {

using testing::kMinute;
using Node = testing::AgentNode;
using Lines = Node::Lines;
using Floats = std::vector<float>;
using Ranks = std::vector<Rank>;

// Member 3, of weight 1.
struct TsEngineNotes : ::testing::Test {
  TsEngineNotes() { node.contribute(1); }
  Node node{3};
};

// --- orders -------------------------------------------------------------------------------------

// What is announced must be known before the first piece: notes of a class go in order.
TEST_F(TsEngineNotes, MergeAnnouncesAPartAndThenSendsItInTheSameClass) {
  node.context.now = Time(500);
  ASSERT_TRUE(node.hear(2, Merge{0, 7, 4, 1000}));
  ASSERT_EQ(node.context.notes.size(), 1u);
  ASSERT_EQ(node.context.posts.size(), 1u);
  EXPECT_EQ(node.context.notes[0].service.priority, node.newest().service.priority);
  EXPECT_EQ(node.context.notes[0].service.order, node.newest().service.order);
  EXPECT_EQ(node.told(), (Lines{"7: sending bucket 0, xfer 4, mean 0, weight 1, counted {3}"}));
  EXPECT_EQ(node.last(), (testing::Post{node.own(3), 7u, 1}));
  EXPECT_EQ(node.newest().ranges, (std::vector<Range>{{0, 2}, {2, 2}}));
  EXPECT_EQ(node.attempt.due(), Time(1500));

  ASSERT_TRUE(node.announce(5, 1, 5, 2.5, {5, 7}));
  node.give_all(5, node.mixed(5), 1, 2.5, 1);
  node.told();
  ASSERT_TRUE(node.hear(2, Merge{1, 2, 6, 1000}));
  EXPECT_EQ(node.told(),
            (Lines{"2: sending bucket 1, xfer 6, mean 0, weight 3.5, counted {3, 5, 7}"}));
  EXPECT_EQ(node.newest().weight, 3.5);
}

TEST_F(TsEngineNotes, OrdersAboutPartsComeFromTheCoordinatorAndMakeSense) {
  EXPECT_FALSE(node.hear(5, Merge{0, 7, 1, kMinute})) << "of who is no coordinator";
  EXPECT_FALSE(node.hear(3, Merge{0, 7, 1, kMinute})) << "of itself";
  EXPECT_FALSE(node.hear(2, Merge{0, 3, 1, kMinute})) << "to itself";
  EXPECT_FALSE(node.hear(2, Merge{0, 4, 1, kMinute})) << "to no member";
  EXPECT_FALSE(node.hear(2, Merge{2, 7, 1, kMinute})) << "there are two buckets";
  EXPECT_FALSE(node.hear(2, Merge{0, 7, 0, kMinute})) << "no number";
  Node early(3), idle(3);
  EXPECT_FALSE(early.hear(2, Merge{0, 7, 1, kMinute})) << "before its part is here";
  idle.contribute(0);
  EXPECT_FALSE(idle.hear(2, Merge{0, 7, 1, kMinute})) << "it brings nothing";
  EXPECT_TRUE(node.context.posts.empty() && node.told().empty());
  EXPECT_TRUE(node.hear(2, Merge{0, 7, 1, kMinute}));
}

TEST_F(TsEngineNotes, APartIsOrderedOnceAtATimeAndNotWhenItIsGone) {
  ASSERT_TRUE(node.announce(5, 0, 1, 2, {5}));
  EXPECT_FALSE(node.hear(2, Merge{0, 7, 2, kMinute})) << "another's is on its way here";
  node.give_all(5, node.own(5), 0, 2, 1);
  ASSERT_TRUE(node.hear(2, Merge{0, 7, 2, kMinute}));
  EXPECT_FALSE(node.hear(2, Merge{0, 5, 3, kMinute})) << "it is being sent";
  EXPECT_TRUE(node.hear(2, Merge{1, 5, 3, kMinute})) << "of another bucket";
  node.context.now = Time(kMinute);
  node.attempt.on_time(node.context);
  EXPECT_FALSE(node.hear(2, Merge{0, 7, 2, kMinute})) << "the order that was given up";
  EXPECT_TRUE(node.hear(2, Merge{0, 2, 4, kMinute}));
  ASSERT_TRUE(node.hear(2, Got{0, 4, false, 1}));
  EXPECT_FALSE(node.hear(2, Merge{0, 7, 5, kMinute})) << "given away";
  Node idle(5);
  idle.contribute(1);
  ASSERT_TRUE(idle.announce_mean(7, 0, 1));
  idle.give_all(7, idle.mean(2), 0, 0, 1);
  EXPECT_FALSE(idle.hear(2, Merge{0, 7, 5, kMinute})) << "the mean is here";
}

TEST_F(TsEngineNotes, AMeanIsSentOnAsTheCoordinatorAssigns) {
  ASSERT_TRUE(node.announce_mean(5, 0, 1));
  ASSERT_TRUE(node.give(5, node.mean(2), 0, 0, 1));
  EXPECT_FALSE(node.hear(2, Assign{0, 7, 2, kMinute})) << "half of it is here";
  ASSERT_TRUE(node.give(5, node.mean(2), 1, 0, 1));
  node.told();
  EXPECT_FALSE(node.hear(5, Assign{0, 7, 2, kMinute})) << "of who is no coordinator";
  EXPECT_FALSE(node.hear(2, Assign{0, 3, 2, kMinute})) << "to itself";
  EXPECT_FALSE(node.hear(2, Assign{0, 2, 2, kMinute})) << "to the server, which wrote it";
  EXPECT_FALSE(node.hear(2, Assign{0, 4, 2, kMinute})) << "to no member";
  EXPECT_FALSE(node.hear(2, Assign{2, 7, 2, kMinute})) << "there are two buckets";
  EXPECT_TRUE(node.hear(2, Assign{0, 7, 2, kMinute}));
  EXPECT_EQ(node.told(), (Lines{"7: sending bucket 0, xfer 2, mean 1, weight 0, counted {}"}));
  EXPECT_EQ(node.newest().key, node.mean(2));
  EXPECT_EQ(node.newest().to, 7u);
  EXPECT_EQ(node.attempt.due(), Time(kMinute));
  EXPECT_FALSE(node.hear(2, Assign{0, 5, 3, kMinute})) << "it is being sent";
  ASSERT_TRUE(node.hear(7, Got{0, 2, true, 1}));
  EXPECT_FALSE(node.hear(2, Assign{0, 7, 2, kMinute})) << "an order of before";
  ASSERT_TRUE(node.hear(2, Assign{0, 0, 0, 0}));
  EXPECT_FALSE(node.hear(2, Assign{0, 5, 4, kMinute})) << "all have it";
}

// What goes out first: parts, then means, and the round before.
TEST_F(TsEngineNotes, PartsGoBeforeMeansAndOlderRoundsFirst) {
  Node next(3, {.round = 1});
  next.contribute(1);
  std::vector<std::uint64_t> orders;
  for (Node* one : {&node, &next}) {
    ASSERT_TRUE(one->hear(2, Merge{1, 7, 1, kMinute}));
    orders.push_back(one->newest().service.order);
    ASSERT_TRUE(one->announce_mean(5, 0, 2));
    one->give_all(5, one->mean(2), 0, 0, 1);
    ASSERT_TRUE(one->hear(2, Assign{0, 7, 3, kMinute}));
    orders.push_back(one->newest().service.order);
  }
  ASSERT_EQ(orders.size(), 4u);
  for (std::size_t i = 1; i < orders.size(); ++i) EXPECT_LT(orders[i - 1], orders[i]) << i;
}

// --- announcements ------------------------------------------------------------------------------

TEST_F(TsEngineNotes, TS_2_APartCountsWhomItCan) {
  EXPECT_FALSE(node.announce(5, 2, 1, 1, {5})) << "there are two buckets";
  EXPECT_FALSE(node.announce(5, 0, 0, 1, {5})) << "no number";
  EXPECT_FALSE(node.announce(3, 0, 1, 1, {3})) << "of itself";
  EXPECT_FALSE(node.announce(5, 0, 1, 1, {})) << "of nobody";
  EXPECT_FALSE(node.announce(5, 0, 1, 1, {7})) << "of others alone";
  EXPECT_FALSE(node.announce(5, 0, 1, 1, {3, 5})) << "this node's own is in it";
  EXPECT_FALSE(node.announce(5, 0, 1, 1, {4, 5})) << "no member";
  EXPECT_FALSE(node.announce(5, 0, 1, 1, {5, 500'000})) << "not in the job";
  EXPECT_FALSE(node.announce(5, 0, 1, 0, {5})) << "weighs nothing";
  EXPECT_TRUE(node.announce(5, 0, 1, 1, {5}));
  node.give_all(5, node.own(5), 0, 1, 1);
  EXPECT_FALSE(node.announce(7, 0, 2, 1, {5, 7})) << "5 is counted";
  EXPECT_TRUE(node.announce(7, 0, 2, 1, {7}));
}

TEST_F(TsEngineNotes, PartsComeOneAtATimeToWhoCanAddThem) {
  Node early(3), idle(3);
  idle.contribute(0);
  EXPECT_FALSE(early.announce(5, 0, 1, 1, {5})) << "before its own is here";
  EXPECT_FALSE(idle.announce(5, 0, 1, 1, {5})) << "to who brings nothing";
  ASSERT_TRUE(node.announce(5, 0, 1, 1, {5}));
  EXPECT_FALSE(node.announce(7, 0, 2, 1, {7})) << "while another's comes";
  EXPECT_FALSE(node.announce(5, 0, 3, 1, {5})) << "while its own comes";
  EXPECT_TRUE(node.announce(7, 1, 2, 1, {7})) << "of another bucket";
  node.give_all(5, node.own(5), 0, 1, 1);
  EXPECT_FALSE(node.announce(5, 0, 1, 1, {5})) << "again";
  ASSERT_TRUE(node.hear(2, Merge{0, 7, 4, kMinute}));
  EXPECT_FALSE(node.announce(7, 0, 5, 1, {7})) << "its own is under way";
  ASSERT_TRUE(node.hear(7, Got{0, 4, false, 1}));
  EXPECT_FALSE(node.announce(7, 0, 5, 1, {7})) << "its own is given away";
}

TEST_F(TsEngineNotes, MeansAreAnnouncedAnewToWhoHasContributed) {
  Node early(3), server(2);
  server.contribute(1);
  EXPECT_FALSE(early.announce_mean(5, 0, 1)) << "before its part is here";
  EXPECT_FALSE(server.announce_mean(5, 0, 1)) << "to who writes it";
  EXPECT_FALSE(node.announce_mean(3, 0, 1)) << "of itself";
  EXPECT_FALSE(node.announce_mean(5, 2, 1)) << "there are two buckets";
  EXPECT_TRUE(node.announce_mean(5, 0, 4));
  EXPECT_FALSE(node.announce_mean(5, 0, 4)) << "again";
  EXPECT_TRUE(node.announce_mean(5, 0, 5)) << "after it was given up";
  EXPECT_TRUE(node.announce_mean(7, 0, 3)) << "of another";
}

// How long it took is known of one source that sent all of it, and of no others.
TEST_F(TsEngineNotes, AllWhoSendAMeanAreTold) {
  ASSERT_TRUE(node.announce_mean(5, 0, 6));
  ASSERT_TRUE(node.give(5, node.mean(2), 0, 0, 1));
  ASSERT_TRUE(node.announce_mean(7, 0, 4));
  node.context.now = Time(10);
  ASSERT_TRUE(node.give(7, node.mean(2), 1, 0, 1));
  EXPECT_EQ(node.told(), (Lines{"5: got bucket 0, xfer 6, mean 1, elapsed 0",
                                "7: got bucket 0, xfer 4, mean 1, elapsed 0",
                                "2: offer bucket 0, xfer 6, after 0, elapsed 0"}));
  ASSERT_TRUE(node.announce_mean(2, 0, 8)) << "a third that did not know";
  EXPECT_EQ(node.told(), (Lines{"2: got bucket 0, xfer 8, mean 1, elapsed 0"}));
}

// --- at the server ------------------------------------------------------------------------------

// Shares of 3, 5 and 7; asks for 3's part of bucket 0.
struct TsEngineServerNotes : ::testing::Test {
  TsEngineServerNotes() {
    server.contribute(1);
    EXPECT_TRUE(server.share(3, 1) && server.share(5, 2) && server.share(7, 0));
    server.told();
  }
  Node server{2};
};

TEST_F(TsEngineServerNotes, APartWeighsAsTheSharesSayAndWasAsked) {
  EXPECT_FALSE(server.announce(3, 0, 1, 1.01, {3})) << "more than its share";
  EXPECT_FALSE(server.announce(3, 0, 1, 1, {3, 5})) << "less than both";
  EXPECT_FALSE(server.announce(3, 0, 1, 1, {3, 7})) << "7 brings nothing";
  EXPECT_FALSE(server.announce(3, 0, 1, 2, {2, 3})) << "the server's own";
  EXPECT_FALSE(server.announce(3, 0, 2, 1, {3})) << "another's number";
  EXPECT_FALSE(server.announce(3, 1, 1, 1, {3})) << "another bucket";
  EXPECT_FALSE(server.announce(5, 0, 1, 2, {5})) << "asked of 3";
  EXPECT_TRUE(server.announce(3, 0, 1, 1, {3}));
  Node unknown(2);
  unknown.contribute(1);
  ASSERT_TRUE(unknown.share(3, 1));
  EXPECT_FALSE(unknown.announce(3, 0, 1, 3, {3, 5})) << "5 has told no weight";
}

TEST_F(TsEngineServerNotes, ReportsAreForTheCoordinator) {
  Node worker(3);
  worker.contribute(1);
  Orders orders;  // of what it would coordinate, if it served
  worker.coordinator.open({0, 0, 0}, {16, 20});
  worker.coordinator.ready({0, 0, 0}, 5, orders);
  ASSERT_EQ(orders.list.size(), 1u);
  EXPECT_FALSE(worker.hear(2, Ready{0, 1, true, 1}));
  EXPECT_FALSE(worker.hear(5, Offer{0, 1, Offer::After::received, 0}));
  EXPECT_FALSE(worker.hear(2, Fenced{0, 1, false}));
  EXPECT_TRUE(worker.told().empty());
  EXPECT_FALSE(server.hear(7, Ready{1, 2, true, 1})) << "5 sends it to 3";
  EXPECT_TRUE(server.hear(3, Ready{1, 2, true, 1}));
}

// It asks itself like any other, in the next turn: what comes whole in between was taken.
TEST_F(TsEngineServerNotes, TheServerIsFencedLikeAnyOther) {
  for (const bool in_time : {false, true}) {
    Node node(2);
    node.contribute(1);
    ASSERT_TRUE(node.share(3, 1));
    node.told();
    ASSERT_TRUE(node.announce(3, 0, 1, 1, {3}));
    ASSERT_TRUE(node.give(3, node.own(3), 0, 1, 1));
    ASSERT_TRUE(node.hear(3, Ready{0, 1, false, 0}));
    EXPECT_TRUE(!in_time || node.give(3, node.own(3), 1, 1, 1));
    ASSERT_NO_FATAL_FAILURE(node.hear_itself());
    EXPECT_EQ(node.late(3, node.own(3), 1), !in_time);
    EXPECT_EQ(node.told(), in_time
                               ? (Lines{"3: got bucket 0, xfer 1, mean 0, elapsed 0",
                                        "3: merge bucket 1, to 2, xfer 2, allowed 60000000000"})
                               : (Lines{"3: merge bucket 0, to 2, xfer 2, allowed 120000000000"}));
  }
}

// 13 transfers of a bucket that are not done in time are enough.
TEST_F(TsEngineServerNotes, GivesUpWithAReason) {
  Node node(2);
  ASSERT_TRUE(node.share(3, 1));
  for (Xfer xfer = 1; xfer <= 13; ++xfer) {
    EXPECT_EQ(node.context.given_up, "");
    ASSERT_TRUE(node.hear(3, Ready{0, xfer, false, 0}));
    ASSERT_NO_FATAL_FAILURE(node.hear_itself());
  }
  EXPECT_EQ(node.context.given_up,
            "round 0: 13 transfers of one bucket were not done in time, the last one from rank 3 "
            "to rank 2");
}

// --- answers ------------------------------------------------------------------------------------

// What was given away is counted elsewhere: of it nothing more goes out, and nothing is kept.
TEST_F(TsEngineNotes, APartThatWasTakenIsGivenAway) {
  ASSERT_TRUE(node.announce(5, 0, 1, 2, {5}));
  node.give_all(5, node.own(5), 0, 2, 1);
  ASSERT_TRUE(node.hear(2, Merge{0, 7, 2, 10}));
  node.send_all();
  node.context.now = Time(10);
  node.attempt.on_time(node.context);
  const std::size_t kept = node.saved().size();
  ASSERT_TRUE(node.hear(7, Got{0, 2, false, 1})) << "after the deadline";
  EXPECT_EQ(node.saved().size() + 4 * sizeof(float), kept);
  EXPECT_TRUE(node.context.cancelled.empty()) << "all of it is out, and the next may be so named";

  ASSERT_TRUE(node.hear(2, Merge{1, 7, 3, kMinute}));
  node.bytes(node.own(3), 2);
  ASSERT_TRUE(node.hear(7, Got{1, 3, false, 1})) << "half of it was taken before";
  ASSERT_EQ(node.context.cancelled.size(), 1u);
  EXPECT_EQ(node.context.cancelled[0], (std::pair{node.own(3), Rank{7}}));
}

TEST_F(TsEngineNotes, OnlyTheReceiverOfTheLastTransferGivesThanks) {
  EXPECT_FALSE(node.hear(7, Got{0, 1, false, 1})) << "nothing was sent";
  ASSERT_TRUE(node.hear(2, Merge{0, 7, 4, 10}));
  EXPECT_FALSE(node.hear(7, Got{0, 5, true, 1})) << "a number to come";
  EXPECT_FALSE(node.hear(7, Got{2, 4, false, 1})) << "there are two buckets";
  EXPECT_FALSE(node.hear(7, Got{1, 4, false, 1})) << "of another bucket";
  EXPECT_FALSE(node.hear(5, Got{0, 4, false, 1})) << "sent to 7";
  EXPECT_FALSE(node.hear(7, Got{0, 3, false, 1})) << "another number";
  EXPECT_TRUE(node.hear(7, Got{0, 4, true, 1})) << "not the mean: like one after a deadline";
  EXPECT_EQ(node.attempt.due(), Time(10)) << "and nothing has changed";
  node.context.now = Time(10);
  node.attempt.on_time(node.context);
  EXPECT_TRUE(node.hear(7, Got{0, 4, false, 1})) << "taken all the same";
  EXPECT_FALSE(node.hear(7, Got{0, 4, false, 1})) << "again";
}

TEST_F(TsEngineNotes, WhoHasServedAMeanOffersItAgain) {
  ASSERT_TRUE(node.announce_mean(5, 0, 1));
  node.give_all(5, node.mean(2), 0, 0, 1);
  ASSERT_TRUE(node.hear(2, Assign{0, 7, 2, 10}));
  node.context.now = Time(10);
  node.attempt.on_time(node.context);
  ASSERT_TRUE(node.hear(2, Assign{0, 7, 5, 10}));
  node.bytes(node.mean(2), 0);
  node.told(), node.context.cancelled.clear();
  EXPECT_TRUE(node.hear(7, Got{0, 2, true, 40})) << "of the transfer that was given up";
  EXPECT_TRUE(node.hear(5, Got{0, 5, true, 40})) << "of another";
  EXPECT_TRUE(node.told().empty());
  EXPECT_TRUE(node.hear(7, Got{0, 5, true, 40}));
  EXPECT_EQ(node.told(), (Lines{"2: offer bucket 0, xfer 5, after 1, elapsed 40"}));
  EXPECT_EQ(node.context.cancelled, (decltype(node.context.cancelled){{node.mean(2), 7}}));
}

// The mean proves that the part was counted, whatever its receiver says later.
TEST_F(TsEngineNotes, TheMeanMayOvertakeTheThanks) {
  ASSERT_TRUE(node.hear(2, Merge{0, 7, 4, 10}));
  node.send_all();
  ASSERT_TRUE(node.announce_mean(5, 0, 6));
  node.give_all(5, node.mean(2), 0, 0, 1);
  EXPECT_EQ(node.attempt.due(), std::nullopt);
  EXPECT_TRUE(node.hear(7, Got{0, 4, false, 1}));
  EXPECT_TRUE(node.hear(2, Assign{0, 7, 7, 10}));
}

// A late answer says that the part was taken after all; what somebody announced meanwhile, asked or
// not, has nothing to be added to.
TEST_F(TsEngineNotes, WhatIsGivenAwayTakesNothingThatIsStillOnItsWay) {
  ASSERT_TRUE(node.announce(5, 0, 1, 2, {5}));
  node.give_all(5, node.own(5), 0, 2, 1);
  ASSERT_TRUE(node.hear(2, Merge{0, 2, 2, 10}));
  node.context.now = Time(10);
  node.attempt.on_time(node.context);
  ASSERT_TRUE(node.announce(7, 0, 3, 1, {7}));
  ASSERT_TRUE(node.give(7, node.own(7), 0, 1, 1));
  ASSERT_TRUE(node.hear(2, Got{0, 2, false, 1}));
  node.told();
  EXPECT_FALSE(node.admits(7, node.own(7), 1));
  EXPECT_TRUE(node.late(7, node.own(7), 1)) << "its sender may not know";
  EXPECT_TRUE(node.hear(2, Fence{0, 7, 3}));
  EXPECT_EQ(node.told(), (Lines{"2: fenced bucket 0, xfer 3, taken 0"}));
}

// --- deadlines and fences -----------------------------------------------------------------------

TEST_F(TsEngineNotes, WhatIsNotDoneInTimeIsReported) {
  EXPECT_EQ(node.attempt.due(), std::nullopt);
  ASSERT_TRUE(node.announce_mean(5, 0, 1));
  node.give_all(5, node.mean(2), 0, 0, 1);
  ASSERT_TRUE(node.hear(2, Assign{0, 7, 2, 100}) && node.hear(2, Merge{1, 5, 3, 60}));
  EXPECT_EQ(node.attempt.due(), Time(60));
  node.told();
  node.context.now = Time(59);
  node.attempt.on_time(node.context);
  EXPECT_TRUE(node.told().empty() && node.context.cancelled.empty());
  node.context.now = Time(60);
  node.attempt.on_time(node.context);
  EXPECT_EQ(node.told(), (Lines{"2: ready bucket 1, xfer 3, taken 0, elapsed 0"}));
  EXPECT_EQ(node.context.cancelled, (decltype(node.context.cancelled){{node.own(3), 5}}));
  EXPECT_EQ(node.attempt.due(), Time(100));
  node.context.posts.pop_back(), node.context.cancelled.clear();
  node.send_all();
  node.context.now = Time(200);
  node.attempt.on_time(node.context);
  EXPECT_EQ(node.told(), (Lines{"2: offer bucket 0, xfer 2, after 2, elapsed 0"}));
  EXPECT_TRUE(node.context.cancelled.empty()) << "all of it is out";
  EXPECT_EQ(node.attempt.due(), std::nullopt);
}

// What a fence finds taken stays taken; what it does not is never taken, whatever comes later.
TEST_F(TsEngineNotes, AFenceDecidesWhetherAPartIsTaken) {
  const auto answer = [&](Rank about, Xfer xfer) {
    EXPECT_TRUE(node.hear(2, Fence{0, about, xfer}));
    return node.told();
  };
  ASSERT_TRUE(node.announce(5, 0, 4, 2, {5}));
  node.give_all(5, node.own(5), 0, 2, 1);
  node.told();
  EXPECT_EQ(answer(5, 4), (Lines{"2: fenced bucket 0, xfer 4, taken 1"}));
  EXPECT_EQ(answer(5, 6), (Lines{"2: fenced bucket 0, xfer 6, taken 0"})) << "before it came";
  EXPECT_TRUE(node.announce(5, 0, 6, 2, {5})) << "no lie";
  EXPECT_FALSE(node.admits(5, node.own(5), 0)) << "but never taken";

  ASSERT_TRUE(node.announce(7, 0, 7, 1, {7}));
  ASSERT_TRUE(node.give(7, node.own(7), 0, 1, 1));
  EXPECT_EQ(answer(7, 7), (Lines{"2: fenced bucket 0, xfer 7, taken 0"})) << "half of it is here";
  EXPECT_FALSE(node.admits(7, node.own(7), 1));
  ASSERT_TRUE(node.announce(7, 0, 8, 1, {7})) << "paired again";
  node.give_all(7, node.own(7), 0, 1, 9);
  EXPECT_EQ(node.told().size(), 2u);
  ASSERT_TRUE(node.hear(2, Merge{0, 2, 9, kMinute}));
  EXPECT_EQ(node.told(),
            (Lines{"2: sending bucket 0, xfer 9, mean 0, weight 4, counted {3, 5, 7}"}));
}

TEST_F(TsEngineNotes, FencesComeFromTheCoordinatorAndAreAboutOthers) {
  EXPECT_FALSE(node.hear(5, Fence{0, 7, 1})) << "of who is no coordinator";
  EXPECT_FALSE(node.hear(2, Fence{2, 7, 1})) << "there are two buckets";
  EXPECT_FALSE(node.hear(2, Fence{0, 4, 1})) << "no member";
  EXPECT_FALSE(node.hear(2, Fence{0, 3, 1})) << "this node itself";
  EXPECT_FALSE(node.hear(2, Fence{0, 7, 0})) << "no number";
  AttemptMessage strange = write(Fence{0, 7, 1});
  strange.kind = 9;
  EXPECT_FALSE(node.attempt.take_message(2, strange, node.context)) << "of no kind";
  strange = write(Fence{0, 7, 1});
  strange.words.pop_back();
  EXPECT_FALSE(node.attempt.take_message(2, strange, node.context)) << "cut short";
  EXPECT_TRUE(node.told().empty());
  EXPECT_TRUE(node.hear(2, Fence{0, 7, 1}));
}

}  // namespace
}  // namespace longhaul::overlay::tsengine
