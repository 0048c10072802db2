// What an agent of tsengine does with its own part, pieces and shares; an agent that serves with
// the real coordinator beside it. Notes: tsengine_notes_test.cpp.
#include "longhaul/overlay/tsengine_attempt.h"

#include <set>

#include <gtest/gtest.h>

#include "longhaul/base/testing/archived.h"
#include "longhaul/overlay/testing/agent_node.h"

namespace longhaul::overlay::tsengine {
namespace {

using testing::kMinute;
using Node = testing::AgentNode;
using Lines = Node::Lines;
using Floats = std::vector<float>;
using Ranks = std::vector<Rank>;

// --- its own part -------------------------------------------------------------------------------

TEST(TsEngineAgent, ItsShareGoesToTheServerAndNothingElseGoesUnasked) {
  Node node(3), server(2);
  node.contribute(2.5), server.contribute(1);
  ASSERT_EQ(node.context.shares.size(), 1u);
  EXPECT_EQ(node.context.shares[0].first, 2u);
  EXPECT_EQ(node.context.shares[0].second.weight, 2.5);
  EXPECT_EQ(node.context.shares[0].second.length, 9u);
  EXPECT_EQ(node.context.shares[0].second.vector, node.vector(3));
  EXPECT_TRUE(node.context.posts.empty() && node.told().empty());
  EXPECT_TRUE(server.context.shares.empty() && server.told().empty());
}

TEST(TsEngineAgent, AloneItSendsItsOwnBytesOfTheBucketAskedFor) {
  const std::map<std::uint32_t, std::vector<Range>> last_of = {
      {2, {{4, 2}, {6, 2}, {8, 1}}}, {3, {{6, 2}, {8, 1}}}, {5, {{8, 1}}}, {9, {{8, 1}}}};
  for (const auto& [buckets, ranges] : last_of) {
    Node node(3, {.buckets = buckets});
    node.contribute(4);
    const std::uint32_t count = std::min(buckets, 5u);  // no more than there are pieces
    EXPECT_FALSE(node.hear(2, Merge{count, 5, 1, kMinute})) << "there are no more";
    ASSERT_TRUE(node.hear(2, Merge{count - 1, 5, 1, kMinute}));
    EXPECT_EQ(node.newest().ranges, ranges);
    EXPECT_TRUE(node.context.own_asked.empty()) << "written when the link has room";
    EXPECT_EQ(node.sent(node.own(3), 4), (Floats{3}));
  }
}

// --- parts that come ----------------------------------------------------------------------------

// 3 + 3/4 (z - 3) with z of 7, 8 and 9, piece by piece: 6, 6.75 and 7.5.
TEST(TsEngineAgent, TS_3_APartIsMixedWhenAllOfItIsHere) {
  for (const bool exact : {false, true}) {
    Node node(3, {.exact = exact});
    node.contribute(2);
    ASSERT_TRUE(node.announce(5, 1, 7, 6, {5}));
    const TransferKey in = exact ? node.key(Phase::part, Coding::exact, 5) : node.own(5);
    ASSERT_TRUE(node.give(5, in, 3, 6, 8));
    ASSERT_TRUE(node.give(5, in, 2, 6, 7));
    EXPECT_TRUE(node.context.own_asked.empty()) << "nothing is added before";
    EXPECT_TRUE(node.told().empty());
    node.context.now = Time(900);
    ASSERT_TRUE(node.give(5, in, 4, 6, 9));
    EXPECT_EQ(node.told(), (Lines{"5: got bucket 1, xfer 7, mean 0, elapsed 900",
                                  "2: ready bucket 1, xfer 7, taken 1, elapsed 900"}));
    ASSERT_TRUE(node.hear(2, Merge{1, 7, 8, kMinute}));
    EXPECT_EQ(node.told(),
              (Lines{"7: sending bucket 1, xfer 8, mean 0, weight 8, counted {3, 5}"}));
    const TransferKey out = exact ? node.key(Phase::part, Coding::exact, 3) : node.mixed(3);
    EXPECT_EQ(node.newest().key, out) << "no longer its contribution";
    EXPECT_EQ(node.newest().weight, 8);
    EXPECT_EQ(node.sent(out, 2), (Floats{6, 6}));
    EXPECT_EQ(node.sent(out, 3), exact ? (Floats{6.75f, 6.75f}) : (Floats{6, 6}));
    EXPECT_EQ(node.sent(out, 4), exact ? (Floats{7.5f}) : (Floats{7}));
    // What is exact is written without a codec, which counts.
    if (!exact)
      EXPECT_EQ(node.context.own_asked, (std::map<std::size_t, int>{{2, 1}, {3, 1}, {4, 1}}));
  }
}

TEST(TsEngineAgent, PartsAreAdmittedAsAnnouncedAndOnce) {
  Node node(3);
  node.contribute(1);
  EXPECT_FALSE(node.admits(5, node.own(5), 0)) << "not announced";
  ASSERT_TRUE(node.announce(5, 0, 1, 2, {5}));
  EXPECT_FALSE(node.admits(5, node.own(5), 2)) << "of another bucket";
  EXPECT_FALSE(node.admits(7, node.own(7), 0)) << "of who announced nothing";
  EXPECT_FALSE(node.admits(5, node.own(7), 0)) << "in another's name";
  EXPECT_FALSE(node.admits(5, node.mixed(5), 0)) << "of one alone it is its contribution";
  EXPECT_FALSE(node.admits(5, node.key(Phase::part, Coding::exact, 5), 0));
  EXPECT_FALSE(node.admits(5, node.mean(2), 0)) << "a part was announced";
  EXPECT_FALSE(node.admits(5, node.key(Phase::repair, Coding::up, 5), 0));
  TransferKey other = node.own(5);
  ++other.vector.round;
  EXPECT_FALSE(node.admits(5, other, 0)) << "of another round";
  ASSERT_TRUE(node.give(5, node.own(5), 0, 2, 1));
  EXPECT_FALSE(node.admits(5, node.own(5), 0)) << "again";
  EXPECT_TRUE(node.admits(5, node.own(5), 1));
  ASSERT_TRUE(node.announce(7, 1, 2, 2, {5, 7}));
  EXPECT_FALSE(node.admits(7, node.own(7), 2)) << "of several it is a mean of them";
  EXPECT_TRUE(node.admits(7, node.mixed(7), 2));
}

// It may be of a transfer before that was given up, and counts others.
TEST(TsEngineAgent, APieceWeighsWhatWasAnnounced) {
  Node node(3);
  node.contribute(1);
  ASSERT_TRUE(node.announce(5, 0, 1, 2, {5}));
  EXPECT_FALSE(node.give(5, node.own(5), 0, 2.5, 100));
  EXPECT_TRUE(node.give(5, node.own(5), 0, 2, 6)) << "the right one counts";
  EXPECT_FALSE(node.give(5, node.own(5), 1, 2.5, 100));
  EXPECT_TRUE(node.told().empty());
  EXPECT_TRUE(node.give(5, node.own(5), 1, 2, 6));
  ASSERT_TRUE(node.hear(2, Merge{0, 7, 2, kMinute}));
  EXPECT_EQ(node.sent(node.mixed(3), 0), (Floats{5, 5}));
}

// Only after a fence may pieces come that are of no use, and their sender told no lie.
TEST(TsEngineAgent, PiecesOfAPartThatWasFencedAreLateAndNoOthers) {
  Node node(3), honest(3);
  node.contribute(1), honest.contribute(1);
  const auto late = [](Node& at, Rank from, std::size_t piece) {
    return at.late(from, at.own(from), piece);
  };
  ASSERT_TRUE(node.announce(5, 0, 1, 2, {5}) && honest.announce(5, 0, 1, 2, {5}));
  EXPECT_FALSE(late(node, 5, 0)) << "awaited";
  ASSERT_TRUE(node.give(5, node.own(5), 0, 2, 6));
  ASSERT_TRUE(node.hear(2, Fence{0, 5, 1}));
  EXPECT_TRUE(late(node, 5, 0) && late(node, 5, 1));
  EXPECT_FALSE(late(node, 5, 2)) << "of another bucket";
  EXPECT_FALSE(late(node, 7, 0)) << "of who was not fenced";
  EXPECT_FALSE(node.late(5, node.key(Phase::repair, Coding::up, 5), 0));
  EXPECT_FALSE(node.admits(5, node.own(5), 1)) << "what came of it is forgotten";
  ASSERT_TRUE(node.announce(7, 0, 2, 2, {7}));
  EXPECT_TRUE(late(node, 5, 1)) << "also while another's comes";
  node.give_all(7, node.own(7), 0, 2, 6);
  ASSERT_TRUE(node.announce(5, 0, 3, 2, {5}));
  EXPECT_FALSE(late(node, 5, 0)) << "awaited again, all of it";
  ASSERT_TRUE(node.give(5, node.own(5), 0, 2, 6));
  EXPECT_TRUE(late(node, 5, 0)) << "from before the fence";
  EXPECT_FALSE(late(node, 5, 1));

  honest.give_all(5, honest.own(5), 0, 2, 6);
  EXPECT_FALSE(late(honest, 5, 0)) << "sent twice without a fence, it is a lie";
}

// --- the mean -----------------------------------------------------------------------------------

// Written anew at every hop a mean would be other bits at every member. 2.5 would be 2.
TEST(TsEngineAgent, TS_9_AMeanGoesOnInTheBytesInWhichItCame) {
  Node node(3);
  node.contribute(1);
  EXPECT_FALSE(node.admits(5, node.mean(2), 0)) << "not announced";
  ASSERT_TRUE(node.announce_mean(5, 0, 4));
  EXPECT_FALSE(node.admits(7, node.mean(2), 0)) << "announced by another";
  EXPECT_FALSE(node.admits(5, node.mean(2), 2)) << "of another bucket";
  EXPECT_FALSE(node.admits(5, node.mean(5), 0)) << "the server made it, whoever brings it";
  EXPECT_FALSE(node.admits(5, node.key(Phase::mean, Coding::exact, 2), 0));
  ASSERT_TRUE(node.give(5, node.mean(2), 0, 0, 2.5f));
  EXPECT_EQ(node.context.means.at(0), (Floats{2.5f, 2.5f}));
  EXPECT_TRUE(node.told().empty());
  node.context.now = Time(30);
  ASSERT_TRUE(node.give(5, node.mean(2), 1, 0, 3.5f));
  EXPECT_EQ(node.told(), (Lines{"5: got bucket 0, xfer 4, mean 1, elapsed 30",
                                "2: offer bucket 0, xfer 4, after 0, elapsed 0"}));
  ASSERT_TRUE(node.hear(2, Assign{0, 7, 9, kMinute}));
  EXPECT_EQ(node.newest().key, node.mean(2)) << "in the name of the server";
  EXPECT_EQ(node.sent(node.mean(2), 0), (Floats{2.5f, 2.5f}));
  EXPECT_EQ(node.sent(node.mean(2), 1), (Floats{3.5f, 3.5f}));
  EXPECT_TRUE(node.context.written.empty());
}

// A second holder stands in for one that was slow: what both send is needed once.
TEST(TsEngineAgent, PiecesOfAMeanAreLateWhereTwoSendIt) {
  Node node(3);
  node.contribute(1);
  ASSERT_TRUE(node.announce_mean(5, 0, 4));
  ASSERT_TRUE(node.give(5, node.mean(2), 0, 0, 1));
  EXPECT_FALSE(node.late(5, node.mean(2), 0)) << "the only source";
  ASSERT_TRUE(node.announce_mean(7, 0, 5));
  EXPECT_TRUE(node.late(7, node.mean(2), 0));
  EXPECT_FALSE(node.late(7, node.mean(2), 1)) << "is not here";
  EXPECT_FALSE(node.late(2, node.mean(2), 0)) << "announced nothing";
}

// --- the server ---------------------------------------------------------------------------------

// Of who has told its weight a part is asked at once; of who brings nothing, never.
TEST(TsEngineServer, WhoeverSharesIsPairedAtOnce) {
  Node server(2);
  ASSERT_TRUE(server.share(7, 0));
  EXPECT_TRUE(server.told().empty()) << "brings nothing";
  ASSERT_TRUE(server.share(5, 2));
  EXPECT_EQ(server.told(), (Lines{"5: merge bucket 0, to 2, xfer 1, allowed 60000000000"}));
  server.contribute(1);
  EXPECT_TRUE(server.told().empty());
  ASSERT_TRUE(server.share(3, 2));
  EXPECT_EQ(server.told(), (Lines{"3: merge bucket 1, to 5, xfer 2, allowed 60000000000"}));
}

TEST(TsEngineServer, SharesComeOnceFromMembersAndToTheServer) {
  Node server(2), worker(3);
  EXPECT_FALSE(worker.share(5, 1)) << "serves nobody";
  EXPECT_FALSE(server.share(4, 1)) << "no member";
  EXPECT_TRUE(server.share(5, 1));
  EXPECT_FALSE(server.share(5, 1)) << "again";
  server.contribute(1);
  EXPECT_FALSE(server.share(2, 1)) << "in the name of this node";
}

TEST(TsEngineServer, TellsAllWhoIsCountedWhenItKnows) {
  Node server(2);
  ASSERT_TRUE(server.share(3, 2) && server.share(7, 0) && server.share(5, 4));
  EXPECT_TRUE(server.context.rosters().empty()) << "its own weight is still to come";
  server.contribute(0.5);
  EXPECT_EQ(server.context.contributors_known, (testing::Known{{Ranks{2, 3, 5}, 6.5}}));
  EXPECT_EQ(server.context.rosters().size(), 3u);
}

TEST(TsEngineServer, WithoutContributionsThereIsNoMean) {
  Node server(2);
  server.contribute(0);
  for (const Rank from : {3u, 5u, 7u}) {
    EXPECT_FALSE(server.attempt.reduced() || server.attempt.drained());
    ASSERT_TRUE(server.share(from, 0));
  }
  EXPECT_TRUE(server.context.means.empty() && server.told().empty());
  EXPECT_EQ(server.context.contributors_known, (testing::Known{{Ranks{}, 0.0}}));
  EXPECT_TRUE(server.attempt.reduced() && server.attempt.drained());
  EXPECT_FALSE(server.coordinator.runs({0, 0, 0}));
}

// Weights of all members.
const std::map<Rank, double> kWeights = {{2, 1}, {3, 1}, {5, 2}, {7, 0}};

// A server that has all shares, and toys in place of the others. Each value of a toy is its rank.
struct Serving : Node {
  explicit Serving(testing::AgentOptions how = {}) : Node(how.server, how) {
    if (how.server == 2) contribute(1);
    for (const auto& [rank, weight] : kWeights)
      EXPECT_TRUE(rank == how.server || share(rank, weight)) << rank;
  }
  // Does what is ordered until there is nothing left to do.
  void go_on() {
    while (!context.notes.empty()) {
      ASSERT_NO_FATAL_FAILURE(hear_itself());
      for (const auto& one : std::exchange(context.notes, {})) {
        const auto obey = [&](const auto& order) -> Status { return this->obey(one.to, order); };
        ASSERT_TRUE(read(one.note, obey));
      }
    }
  }
  std::map<std::uint32_t, std::multiset<Rank>> reached;  // to whom a bucket of the mean went

 private:
  template <class M>
  Status obey(Rank, const M&) {
    return Ok{};
  }
  Sum& sum(std::uint32_t bucket, Rank rank) {
    return sums.try_emplace({bucket, rank}, Sum{kWeights.at(rank), {rank}, {float(rank)}})
        .first->second;
  }
  Status obey(Rank from, const Merge& order) {
    Sum part = sum(order.bucket, from);
    if (order.to != self()) {
      mix(sum(order.bucket, order.to), std::move(part));
      EXPECT_TRUE(hear(order.to, Ready{order.bucket, order.xfer, true, 1000}));
      return Ok{};
    }
    EXPECT_TRUE(announce(from, order.bucket, order.xfer, part.weight, part.counted));
    const TransferKey key = part.counted.size() == 1 ? own(from) : mixed(from);
    for (std::size_t piece = order.bucket * 2; piece < 2 + order.bucket * 3; ++piece)
      EXPECT_TRUE(give(from, key, piece, part.weight, part.values[0]));
    return Ok{};
  }
  Status obey(Rank holder, const Assign& order) {
    if (order.xfer == 0) return Ok{};
    reached[order.bucket].insert(order.to);
    EXPECT_TRUE(hear(order.to, Offer{order.bucket, order.xfer, Offer::After::received, 0}));
    EXPECT_TRUE(hear(holder, Offer{order.bucket, order.xfer, Offer::After::served, 1000}));
    return Ok{};
  }
  Status obey(Rank to, const Sending& mean) {  // from this node
    reached[mean.bucket].insert(to);
    send_all();
    EXPECT_TRUE(hear(to, Offer{mean.bucket, mean.xfer, Offer::After::received, 0}));
    EXPECT_TRUE(hear(to, Got{mean.bucket, mean.xfer, true, 1000}));
    return Ok{};
  }
  std::map<std::pair<std::uint32_t, Rank>, Sum> sums;
};

// Parts of 3 and 5 of weight 1 and 2, and 2 of weight 1: 6 + 2/3 (9 - 6) = 8, 8 + 1/4 (2 - 8) =
// 6.5. PaperContext cuts what is behind the point of what goes down.
TEST(TsEngineServer, TS_3_AddsItsOwnPartLastAndReadsWhatOthersWillRead) {
  for (const bool exact : {false, true}) {
    Serving server({.exact = exact});
    const Coding up = exact ? Coding::exact : Coding::up;
    EXPECT_EQ(server.told(), (Lines{"3: merge bucket 0, to 2, xfer 1, allowed 60000000000",
                                    "5: merge bucket 1, to 3, xfer 2, allowed 60000000000"}));
    ASSERT_TRUE(server.announce(3, 0, 1, 1, {3}));
    server.give_all(3, server.key(Phase::part, up, 3), 0, 1, 6);
    ASSERT_TRUE(server.hear(3, Ready{1, 2, true, 0}));
    EXPECT_EQ(server.told(), (Lines{"3: got bucket 0, xfer 1, mean 0, elapsed 0",
                                    "5: merge bucket 0, to 2, xfer 3, allowed 60000000000"}));
    ASSERT_TRUE(server.announce(5, 0, 3, 2, {5}));
    EXPECT_TRUE(server.context.own_asked.empty() && server.context.means.empty());
    server.give_all(5, server.key(Phase::part, up, 5), 0, 2, 9);
    if (!exact) EXPECT_EQ(server.context.own_asked, (std::map<std::size_t, int>{{0, 1}, {1, 1}}));
    EXPECT_EQ(server.context.means.at(0), exact ? (Floats{6.5f, 6.5f}) : (Floats{6, 6}));
    EXPECT_EQ(server.context.means.at(1), exact ? (Floats{7.25f, 7.25f}) : (Floats{7, 7}));
    EXPECT_EQ(server.context.means.size(), 2u) << "the other bucket is still added up";
  }
}

// TS_9: whoever asks for a piece gets the same bytes, also who brought nothing.
TEST(TsEngineServer, TS_1_AMeanIsWrittenOnceAndReachesAll) {
  for (const Rank self : {2u, 9u}) {
    for (const bool streamed : {true, false}) {
      Serving server({.server = self, .streamed = streamed});
      EXPECT_FALSE(server.attempt.reduced() || server.attempt.drained());
      ASSERT_NO_FATAL_FAILURE(server.go_on());
      EXPECT_TRUE(server.attempt.reduced() && server.attempt.drained());
      EXPECT_FALSE(server.coordinator.runs({0, 0, 0}));
      std::multiset<Rank> all = {2, 3, 5, 7};
      if (self == 2) all.erase(2);
      for (const std::uint32_t bucket : {0u, 1u}) EXPECT_EQ(server.reached[bucket], all);
      for (std::size_t piece = 0; piece < 5; ++piece) {
        EXPECT_EQ(server.context.written[piece], 1) << piece;
        const Floats three(piece < 4 ? 2 : 1, 3);  // (2 + 3 + 2 * 5) / 4 is 3.75
        EXPECT_EQ(server.context.means.contains(piece), self == 2)
            << "one that is no member keeps none";
        EXPECT_TRUE(self == 9 || server.context.means.at(piece) == three);
      }
    }
  }
}

TEST(TsEngineServer, SequentialNothingIsSpreadBeforeAllIsAddedUp) {
  for (const bool streamed : {true, false}) {
    Serving server({.streamed = streamed});
    server.told();
    const auto assigned = [&] {
      int count = 0;
      for (const std::string& line : server.told()) count += line.find(": assign") < 3;
      return count;
    };
    ASSERT_TRUE(server.announce(3, 0, 1, 1, {3}));
    server.give_all(3, server.own(3), 0, 1, 6);
    ASSERT_TRUE(server.hear(3, Ready{1, 2, true, 0}));
    EXPECT_EQ(assigned(), 0);
    ASSERT_TRUE(server.announce(5, 0, 3, 2, {5}));
    server.give_all(5, server.own(5), 0, 2, 9);
    EXPECT_EQ(assigned(), streamed ? 1 : 0);
    ASSERT_TRUE(server.announce(3, 1, 4, 3, {3, 5}));
    EXPECT_FALSE(server.attempt.reduced());
    server.give_all(3, server.mixed(3), 1, 3, 9);
    EXPECT_TRUE(server.attempt.reduced());
    EXPECT_EQ(assigned(), streamed ? 0 : 1) << "one at a time from one port";
  }
}

// A run that only takes times has no numbers.
TEST(TsEngineServer, WithoutNumbersNoneAreMadeUp) {
  Node server(9, {.server = 9, .phantom = true});
  ASSERT_TRUE(server.share(2, 1));
  for (const Rank from : {3u, 5u, 7u}) ASSERT_TRUE(server.share(from, 0));
  ASSERT_TRUE(server.announce(2, 0, 1, 1, {2}));
  for (const std::size_t piece : {0u, 1u})
    ASSERT_TRUE(server.attempt.take({2, server.own(2), server.table->grid.range(piece), {}, 1},
                                    piece, server.context));
  ASSERT_NO_FATAL_FAILURE(server.hear_itself());
  EXPECT_EQ(server.newest().key, server.mean(9));
  EXPECT_TRUE(server.bytes(server.mean(9), 1).is_phantom());
}

// --- waiting and going on -----------------------------------------------------------------------

TEST(TsEngineAgent, SaysForWhichBucketAndWhomItWaits) {
  Node node(3, {.round = 7}), idle(5, {.round = 7});
  const auto waits = [](const Node& at) { return at.attempt.waiting_for({}); };
  idle.contribute(0);
  EXPECT_EQ(waits(idle), "round 7, bucket 0: the mean (coordinator 2)");
  node.contribute(1);
  EXPECT_EQ(waits(node), "round 7, bucket 0: whom to send its part to (coordinator 2)");
  ASSERT_TRUE(node.announce(5, 0, 1, 2, {5}));
  EXPECT_EQ(waits(node), "round 7, bucket 0: the part of 5");
  node.give_all(5, node.own(5), 0, 2, 1);
  ASSERT_TRUE(node.hear(2, Merge{0, 7, 2, kMinute}));
  EXPECT_EQ(waits(node), "round 7, bucket 0: that 7 takes its part");
  ASSERT_TRUE(node.hear(7, Got{0, 2, false, 1}));
  EXPECT_EQ(waits(node), "round 7, bucket 1: whom to send its part to (coordinator 2)");
  ASSERT_TRUE(node.hear(2, Merge{1, 7, 3, kMinute}) && node.hear(7, Got{1, 3, false, 1}));
  ASSERT_TRUE(node.announce_mean(7, 0, 4) && node.announce_mean(5, 0, 5));
  EXPECT_EQ(waits(node), "round 7, bucket 0: the mean of ranks 5, 7");
  node.give_all(7, node.mean(2), 0, 0, 1);
  EXPECT_EQ(waits(node), "round 7, bucket 1: the mean (coordinator 2)");
  ASSERT_TRUE(node.announce_mean(5, 1, 6));
  node.give_all(5, node.mean(2), 1, 0, 1);
  EXPECT_EQ(waits(node), "round 7: roster of rank 2");
}

TEST(TsEngineServer, SaysWhoseSharesAndPartsAreMissing) {
  Node early(2, {.round = 7});
  ASSERT_TRUE(early.share(5, 1));
  EXPECT_EQ(early.attempt.waiting_for({}), "round 7: shares of ranks 2, 3, 7");
  Serving server({.round = 7});
  const auto waits = [&] { return server.attempt.waiting_for({}); };
  EXPECT_EQ(waits(), "round 7, bucket 0: parts of ranks 3, 5");
  ASSERT_TRUE(server.announce(3, 0, 1, 1, {3}));
  server.give_all(3, server.own(3), 0, 1, 6);
  EXPECT_EQ(waits(), "round 7, bucket 0: parts of rank 5");
  ASSERT_TRUE(server.hear(5, Ready{1, 2, false, 0}));
  EXPECT_EQ(waits(), "round 7: whether parts came to rank 3");
}

TEST(TsEngineAgent, IsDrainedWhenAllBucketsAreLetGo) {
  Node node(3);
  node.contribute(0);
  for (const std::uint32_t bucket : {0u, 1u}) {
    ASSERT_TRUE(node.announce_mean(5, bucket, 1 + bucket));
    node.give_all(5, node.mean(2), bucket, 0, 1);
  }
  EXPECT_TRUE(node.attempt.reduced()) << "nothing is its own to reduce";
  ASSERT_TRUE(node.hear(2, Assign{0, 0, 0, 0}));
  EXPECT_FALSE(node.attempt.drained());
  ASSERT_TRUE(node.hear(2, Assign{1, 7, 9, kMinute}));
  EXPECT_FALSE(node.hear(2, Assign{1, 0, 0, 0})) << "it is sending it";
  ASSERT_TRUE(node.hear(7, Got{1, 9, true, 1}));
  ASSERT_TRUE(node.hear(2, Assign{1, 0, 0, 0}));
  EXPECT_TRUE(node.attempt.drained());
}

// Bucket 0 of this one was given away and half of its mean is here, announced twice; half of a part
// of bucket 1 is here, after one that was fenced, and its mean is announced.
void play_half(Node& node) {
  node.context.now = Time(20);
  node.contribute(1);
  ASSERT_TRUE(node.hear(2, Merge{0, 7, 1, kMinute}) && node.hear(7, Got{0, 1, false, 1}));
  ASSERT_TRUE(node.announce(7, 1, 2, 2, {7}) && node.hear(2, Fence{1, 7, 2}));
  ASSERT_TRUE(node.announce(5, 1, 3, 2, {5}));
  ASSERT_TRUE(node.announce_mean(5, 0, 4) && node.announce_mean(7, 0, 5));
  ASSERT_TRUE(node.announce_mean(7, 1, 6));
  ASSERT_TRUE(node.give(5, node.own(5), 2, 2, 9) && node.give(5, node.mean(2), 0, 0, 2.5f));
  node.told(), node.context.posts.clear();
}

Lines play_on(Node& node) {
  node.context.now = Time(50);
  EXPECT_FALSE(node.admits(5, node.own(5), 2)) << "came before";
  EXPECT_TRUE(node.late(7, node.own(7), 3)) << "the fence";
  EXPECT_TRUE(node.late(5, node.mean(2), 0));
  EXPECT_FALSE(node.hear(2, Merge{0, 5, 6, kMinute})) << "given away";
  for (const std::size_t piece : {3u, 4u}) EXPECT_TRUE(node.give(5, node.own(5), piece, 2, 9));
  EXPECT_TRUE(node.hear(2, Merge{1, 2, 7, kMinute}));
  EXPECT_EQ(node.sent(node.mixed(3), 2), (Floats{7, 7})) << "3 + 2/3 (9 - 3)";
  EXPECT_TRUE(node.give(7, node.mean(2), 1, 0, 4));
  EXPECT_TRUE(node.hear(2, Assign{0, 5, 8, kMinute}));
  EXPECT_EQ(node.sent(node.mean(2), 0), (Floats{2.5f, 2.5f}));
  for (const std::size_t piece : {2u, 3u, 4u}) EXPECT_TRUE(node.give(7, node.mean(2), piece, 0, 4));
  return node.told();
}

TEST(TsEngineAgent, SavedAndLoadedInTheMiddleItGoesOnTheSame) {
  Node node(3), loaded(3);
  ASSERT_NO_FATAL_FAILURE(play_half(node));
  ASSERT_NO_FATAL_FAILURE(loaded.load(node));
  EXPECT_EQ(loaded.saved(), node.saved());
  const Lines said = play_on(node);
  EXPECT_EQ(said.size(), 9u);
  EXPECT_EQ(play_on(loaded), said);
  EXPECT_EQ(loaded.saved(), node.saved());
}

TEST(TsEngineAgent, SavedAndLoadedWhileItSendsItKeepsTheDeadline) {
  Node node(3), loaded(3);
  node.contribute(1);
  ASSERT_TRUE(node.hear(2, Merge{0, 7, 4, 1000}));
  node.bytes(node.own(3), 0);
  ASSERT_NO_FATAL_FAILURE(loaded.load(node));
  EXPECT_EQ(loaded.attempt.due(), Time(1000));
  loaded.bytes(loaded.own(3), 1);
  EXPECT_FALSE(loaded.hear(5, Got{0, 4, false, 1}));
  EXPECT_FALSE(loaded.hear(7, Got{0, 3, false, 1}));
  EXPECT_FALSE(loaded.hear(7, Got{0, 5, false, 1}));
  EXPECT_TRUE(loaded.hear(7, Got{0, 4, false, 1}));
  EXPECT_EQ(loaded.attempt.due(), std::nullopt);
}

TEST(TsEngineServer, SavedAndLoadedItKnowsTheShares) {
  Node server(2), loaded(2), unlike(2, {.buckets = 3});
  server.contribute(1);
  ASSERT_TRUE(server.share(3, 0.5));
  ASSERT_NO_FATAL_FAILURE(loaded.load(server));
  EXPECT_EQ(loaded.attempt.waiting_for({}), "round 0: shares of ranks 5, 7");
  EXPECT_FALSE(loaded.share(3, 0.5)) << "it came before";
  loaded.coordinator.open({0, 0, 0}, {16, 20});
  ASSERT_TRUE(loaded.share(5, 0) && loaded.share(7, 0));
  EXPECT_EQ(loaded.context.contributors_known, (testing::Known{{Ranks{2, 3}, 1.5}}));
  const Status status = longhaul::testing::load(unlike.attempt, server.saved());
  ASSERT_FALSE(status);
  EXPECT_NE(status.error().what.find("another number of buckets"), std::string::npos);
}

TEST(TsEngineSum, TS_3_MixesByWeightAndKeepsCount) {
  Sum sum;
  mix(sum, {2, {3}, {1, 10}});
  mix(sum, {6, {0, 5}, {5, 10}});
  EXPECT_EQ(sum.values, (std::vector<float>{4, 10})) << "equal ones come back bit-equal";
  EXPECT_EQ(sum.weight, 8);
  EXPECT_EQ(sum.counted, (Ranks{0, 3, 5}));
}

TEST(TsEngineSum, TS_2_NobodyIsAddedTwice) {
  Sum sum{2, {3}, {1}};
  EXPECT_DEATH(mix(sum, {2, {1, 3}, {1}}), "disjoint");
}

}  // namespace

}  // namespace longhaul::overlay::tsengine
