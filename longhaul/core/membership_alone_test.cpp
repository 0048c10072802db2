// One node's Membership, fed by hand: what the others say is made up here, so that each answer can
// be looked at. Whole agreements, in any order of events: membership_test.cpp.
#include <gmock/gmock.h>

#include "longhaul/base/testing/result.h"
#include "longhaul/core/membership.h"
#include "longhaul/core/testing/message_of.h"

namespace longhaul {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using namespace std::chrono_literals;

constexpr TimerId kRetry{1}, kLetIn{2};

struct FedMembership {
  FedMembership(Rank self, std::uint32_t size, std::uint32_t incarnation = 0,
                std::vector<Rank> named = {})
      : membership(place_of(self, size, incarnation, std::move(named))) {}

  void finds(Rank peer, bool unreachable = true) {
    turn([&](Turn& turn) { membership.on_reachability(peer, unreachable, turn); });
  }
  void returned(Rank peer) {
    turn([&](Turn& turn) { membership.on_returned(peer, turn); });
  }
  void start() {
    turn([&](Turn& turn) { membership.on_start(turn); });
  }
  void timer(TimerId id, Time at = Time{0}) {
    now = at;
    turn([&](Turn& turn) { membership.on_timer(id, turn); });
  }
  template <class M>
  Status hear(Rank from, const M& fields) {
    Message message = longhaul::testing::message_of(fields);
    Status status = Ok{};
    turn([&](Turn& turn) { status = membership.on_message(from, message, turn); });
    return status;
  }
  // What it has said of this kind since it was last asked, and to whom; all else is dropped.
  template <class M>
  std::vector<std::pair<Rank, M>> said() {
    std::vector<std::pair<Rank, M>> found;
    for (const auto& [to, message] : std::exchange(sent, {}))
      if (message.kind == M::kKind) found.emplace_back(to, *from_wire<M>(message.head.view()));
    return found;
  }
  // Epoch 1 has this list, by the word of rank 1.
  void is_told(std::vector<Rank> live) {
    ASSERT_TRUE(hear(1, Membership::Decided{1, std::move(live)}));
    sent.clear();
  }

  Place place;
  Membership membership;
  Time now{0};
  std::vector<std::pair<Rank, Message>> sent;
  std::string failure;
  std::map<TimerId, Time> timers;

  void close() {
    turn([&](Turn&) { membership.close(); });
  }
  // The ballot of its newest proposal.
  Membership::Ballot proposed() {
    const auto prepares = said<Membership::Prepare>();
    EXPECT_FALSE(prepares.empty());
    return prepares.empty() ? Membership::Ballot{} : prepares.back().second.ballot;
  }

 private:
  const Place& place_of(Rank self, std::uint32_t size, std::uint32_t incarnation,
                        std::vector<Rank> named) {
    auto members = std::make_shared<Members>();
    for (std::uint32_t rank = 0; rank < size; ++rank)
      members->push_back({"s" + std::to_string(rank)});
    members->at(self).incarnation = incarnation;
    place.self = self;
    place.members = members;
    place.quorum.named = std::move(named);
    return place;
  }
  void turn(const std::function<void(Turn&)>& input) {
    TurnContext context{.now = now, .place = &place, .view = &membership.view()};
    Turn turn(context);
    input(turn);
    for (Action& action : context.actions) {
      if (const auto* send = std::get_if<Send>(&action)) sent.emplace_back(send->to, send->message);
      if (const auto* fail = std::get_if<Fail>(&action)) failure = fail->error.what;
      if (const auto* set = std::get_if<SetTimer>(&action)) timers[set->id] = set->at;
      if (const auto* off = std::get_if<CancelTimer>(&action)) timers.erase(off->id);
    }
  }
};

TEST(MembershipAlone, BeginsWithAllAsFounders) {
  FedMembership node(1, 3);
  EXPECT_EQ(node.membership.view().founders, 3u);
  EXPECT_EQ(node.membership.waiting_for(), "");
}

// 1 waits for 0, which may reach everybody; after each retry, and anew for each suspicion.
TEST(MembershipAlone, WhoIsLaterInLineWaitsFirst) {
  FedMembership node(1, 3);
  for (int time = 0; time < 2; ++time) {
    node.finds(2);
    EXPECT_THAT(node.said<Membership::Prepare>(), IsEmpty());
    EXPECT_EQ(node.timers.at(kRetry), 2500ms) << "a quarter longer than the first in line";
    node.timer(kRetry);
    EXPECT_EQ(node.said<Membership::Prepare>().size(), 3u);
    node.finds(2, false);
    node.sent.clear();
  }
}

TEST(MembershipAlone, ADecisionBeginsTheLineAndTheWaitAnew) {
  FedMembership second(1, 5), first(0, 5);
  for (const Rank lost : {3u, 4u}) second.finds(lost), first.finds(lost);
  second.timer(kRetry, 590s);
  second.sent.clear();
  first.now = 590s;
  for (FedMembership* const node : {&first, &second})
    ASSERT_TRUE(node->hear(2, Membership::Decided{1, {0, 1, 2, 3}}));
  EXPECT_THAT(second.said<Membership::Prepare>(), IsEmpty()) << "0 is to propose";
  first.timer(kRetry, 650s);
  EXPECT_EQ(first.failure, "") << "60 s since the decision";
}

// Else it would be refused by all that have promised a higher one.
TEST(MembershipAlone, ProposesAboveEveryBallotThatItHasSeen) {
  for (const bool accept : {false, true}) {
    FedMembership node(0, 3);
    if (accept) ASSERT_TRUE(node.hear(1, Membership::Accept{1, {9, 1}, {0, 1}}));
    if (!accept) ASSERT_TRUE(node.hear(1, Membership::Prepare{1, {9, 1}}));
    ASSERT_TRUE(node.hear(1, Membership::Prepare{1, {4, 1}}));
    node.sent.clear();
    node.finds(2);
    const auto said = node.said<Membership::Prepare>();
    ASSERT_EQ(said.size(), 3u);
    EXPECT_EQ(said[0].second.ballot.number, 10u) << accept;
  }
}

TEST(MembershipAlone, WhatWasAcceptedForAnEpochIsNotProposedForTheNext) {
  FedMembership node(0, 4);
  ASSERT_TRUE(node.hear(1, Membership::Accept{1, {1, 1}, {0, 1, 2}}));
  node.is_told({0, 1, 2});
  ASSERT_TRUE(node.hear(1, Membership::Prepare{2, {1, 1}}));
  const auto said = node.said<Membership::Promise>();
  ASSERT_EQ(said.size(), 1u);
  EXPECT_EQ(said[0].second.accepted, Membership::Ballot{});
  EXPECT_THAT(said[0].second.live, IsEmpty());
}

// The list that others decided on still has one that this node cannot reach.
TEST(MembershipAlone, GoesOnProposingIfADecisionLeavesOneThatItCannotReach) {
  FedMembership node(0, 5);
  node.finds(3);
  node.sent.clear();
  ASSERT_TRUE(node.hear(1, Membership::Decided{1, {0, 1, 2, 3}}));
  const auto said = node.said<Membership::Prepare>();
  ASSERT_EQ(said.size(), 4u);
  EXPECT_EQ(said[0].second.epoch, 2u);
}

TEST(MembershipAlone, ProposesAListWithWhoComesBack) {
  FedMembership node(0, 3);
  node.is_told({0, 1});
  node.returned(2);
  const auto prepares = node.said<Membership::Prepare>();
  ASSERT_EQ(prepares.size(), 2u);
  for (const Rank rank : {0u, 1u})
    ASSERT_TRUE(node.hear(rank, Membership::Promise{2, prepares[0].second.ballot, {}, {}}));
  const auto accepts = node.said<Membership::Accept>();
  ASSERT_EQ(accepts.size(), 2u);
  EXPECT_THAT(accepts[0].second.live, ElementsAre(0, 1, 2));
}

// It may have promised nothing and yet be answered: by one that lies, or of a proposal given up.
TEST(MembershipAlone, AnswersToNoProposalAreIgnored) {
  FedMembership node(0, 3);
  EXPECT_TRUE(node.hear(1, Membership::Accepted{1, {}}));
  EXPECT_TRUE(node.hear(1, Membership::Promise{1, {}, {}, {}}));
  EXPECT_THAT(node.sent, IsEmpty());
}

// The living keep what they have for as long as the place says, and nobody is asked in vain.
TEST(MembershipAlone, WithoutAMajorityItWaitsAndThenFails) {
  FedMembership half(0, 4), most(0, 3);
  for (const Rank lost : {2u, 3u}) half.finds(lost);
  EXPECT_EQ(half.said<Membership::Prepare>().size(), 4u) << "three of four were a majority";
  most.finds(2);
  half.timer(kRetry, 599s);
  EXPECT_EQ(half.failure, "");
  EXPECT_THAT(half.said<Membership::Prepare>(), IsEmpty());
  EXPECT_THAT(half.membership.waiting_for(), HasSubstr("a majority: rank 2 (s2), rank 3 (s3)"));
  half.timer(kRetry, 600s);
  EXPECT_THAT(half.failure, HasSubstr("needs 3 of the 4 members"));
  for (int retry = 1; retry < 20; ++retry) most.timer(kRetry, retry * 20s);
  EXPECT_EQ(most.failure, "") << "two of three are a majority";
}

// A cut that heals: contact comes back with one after the other.
TEST(MembershipAlone, WhoHasAMajorityAgainLooksOnceMoreAtItsSuspicions) {
  FedMembership node(0, 4);
  for (const Rank lost : {2u, 3u}) node.finds(lost);
  node.sent.clear();
  node.finds(2, false);
  EXPECT_THAT(node.said<Membership::Prepare>(), IsEmpty()) << "3 may be back in a moment";
  for (const Rank rank : {0u, 1u, 2u})
    ASSERT_TRUE(node.hear(rank, Membership::Promise{1, {1, 0}, {}, {}}));
  EXPECT_THAT(node.said<Membership::Accept>(), IsEmpty()) << "of a proposal that is void";
  node.timer(kRetry, 3s);
  EXPECT_EQ(node.said<Membership::Prepare>().size(), 4u) << "it is not";
}

// --- processes that end and are started again

TEST(MembershipAlone, TheFormerProcessIsLeftOutBeforeTheNewOneIsLetIn) {
  FedMembership node(0, 2);
  node.returned(2);
  EXPECT_THAT(node.said<Membership::Prepare>(), IsEmpty()) << "no member of the job";
  node.returned(1);
  auto prepares = node.said<Membership::Prepare>();
  ASSERT_EQ(prepares.size(), 2u) << "also to the new process, which votes for the former";
  for (const Epoch epoch : {1u, 2u}) {
    const auto ballot = prepares.at(0).second.ballot;
    EXPECT_EQ(prepares.at(0).second.epoch, epoch);
    ASSERT_TRUE(node.hear(0, Membership::Promise{epoch, ballot, {}, {}}));
    if (epoch == 1) ASSERT_TRUE(node.hear(1, Membership::Promise{epoch, ballot, {}, {}}));
    const auto accepts = node.said<Membership::Accept>();
    ASSERT_EQ(accepts.size(), epoch == 1 ? 2u : 1u);
    EXPECT_EQ(accepts[0].second.live,
              epoch == 1 ? std::vector<Rank>{0} : (std::vector<Rank>{0, 1}));
    ASSERT_TRUE(node.hear(0, Membership::Accepted{epoch, ballot}));
    if (epoch == 1) ASSERT_TRUE(node.hear(1, Membership::Accepted{epoch, ballot}));
    EXPECT_EQ(node.membership.view().epoch, epoch);
    prepares = node.said<Membership::Prepare>();
  }
  EXPECT_EQ(node.membership.view().since(1), 2u);
  EXPECT_THAT(prepares, IsEmpty()) << "nothing is open any more";
}

TEST(MembershipAlone, OneThatAskedAndIsGoneAgainIsNotLetIn) {
  FedMembership node(0, 3);
  node.is_told({0, 1});
  node.returned(2);
  node.finds(2);
  node.sent.clear();
  node.timer(kRetry, 2s);
  EXPECT_THAT(node.said<Membership::Prepare>(), IsEmpty());
}

// What the process before has accepted may have been decided.
TEST(MembershipAlone, ANewProcessVotesAsTheOneBeforeHasVoted) {
  FedMembership before(2, 3);
  before.start();
  ASSERT_TRUE(before.hear(0, Membership::Accept{1, {3, 0}, {0, 2}}));
  const auto kept = good(before.membership.take_votes());
  EXPECT_FALSE(before.membership.take_votes()) << "nothing has changed since";

  FedMembership now(2, 3, /*incarnation=*/1);
  ASSERT_TRUE(now.membership.remember(*kept));
  now.start();
  ASSERT_TRUE(now.hear(1, Membership::Prepare{1, {2, 1}}));
  EXPECT_THAT(now.said<Membership::Promise>(), IsEmpty()) << "it has promised a higher one";
  ASSERT_TRUE(now.hear(1, Membership::Prepare{1, {4, 1}}));
  auto said = now.said<Membership::Promise>();
  ASSERT_EQ(said.size(), 1u);
  EXPECT_EQ(said[0].second.accepted, (Membership::Ballot{3, 0}));
  EXPECT_THAT(said[0].second.live, ElementsAre(0, 2));
  EXPECT_FALSE(said[0].second.blank);
  ASSERT_TRUE(now.membership.take_votes()) << "and that is kept, too";
  // Epochs have passed without it; of this one it has heard nothing.
  ASSERT_TRUE(now.hear(1, Membership::Prepare{5, {1, 1}}));
  said = now.said<Membership::Promise>();
  ASSERT_EQ(said.size(), 1u);
  EXPECT_EQ(said[0].second.accepted, Membership::Ballot{});
  EXPECT_THAT(said[0].second.live, IsEmpty());
  ASSERT_TRUE(now.hear(1, Membership::Prepare{4, {9, 1}}));
  EXPECT_THAT(now.sent, IsEmpty()) << "that epoch is over";
}

TEST(MembershipAlone, AFollowerOfDecisionsAnswersWhoIsBehind) {
  FedMembership node(2, 3, /*incarnation=*/1);
  ASSERT_TRUE(node.hear(1, Membership::Decided{4, {0, 1}, {}, 3}));
  ASSERT_TRUE(node.hear(0, Membership::Prepare{4, {1, 0}}));
  const auto said = node.said<Membership::Decided>();
  ASSERT_EQ(said.size(), 1u);
  EXPECT_EQ(said[0].first, 0u);
  EXPECT_THAT(said[0].second.live, ElementsAre(0, 1));
}

TEST(MembershipAlone, VotesThatCannotBeReadAreRefused) {
  FedMembership node(2, 3, /*incarnation=*/1);
  EXPECT_FALSE(node.membership.remember(Buffer(3)));
  Membership::Votes votes{.epoch = 1, .promised = {}, .accepted = {}, .live = {9}, .last = {}};
  EXPECT_FALSE(node.membership.remember(to_wire(votes))) << "ranks that the job has not";
  votes.live = {0};
  EXPECT_FALSE(node.membership.remember(to_wire(votes))) << "no list of the epoch before";
  votes.last.live = {0, 1};
  EXPECT_TRUE(node.membership.remember(to_wire(votes)));
}

// A blank process cannot say what the one before has accepted: only when all answer is nothing
// hidden.
TEST(MembershipAlone, BlankAnswersCountOnlyIfAllAnswer) {
  FedMembership blank(3, 4, /*incarnation=*/1);
  ASSERT_TRUE(blank.hear(0, Membership::Prepare{1, {1, 0}}));
  const auto said = blank.said<Membership::Promise>();
  ASSERT_EQ(said.size(), 1u);
  EXPECT_TRUE(said[0].second.blank);
  EXPECT_FALSE(blank.membership.take_votes()) << "the next process is as blank";

  FedMembership node(0, 4);
  for (const Rank back : {2u, 3u}) node.returned(back);
  auto prepares = node.said<Membership::Prepare>();
  ASSERT_FALSE(prepares.empty());
  const auto ballot = prepares.back().second.ballot;
  ASSERT_TRUE(node.hear(2, Membership::Promise{1, ballot, {}, {}, true}));
  ASSERT_TRUE(node.hear(3, Membership::Promise{1, ballot, {}, {}, true}));
  ASSERT_TRUE(node.hear(0, Membership::Promise{1, ballot, {}, {}}));
  EXPECT_THAT(node.said<Membership::Accept>(), IsEmpty()) << "one that knows is missing";
  ASSERT_TRUE(node.hear(1, Membership::Promise{1, ballot, {}, {}}));
  EXPECT_EQ(node.said<Membership::Accept>().size(), 4u);
  for (const Rank rank : {0u, 2u, 3u})
    ASSERT_TRUE(node.hear(rank, Membership::Accepted{1, ballot, rank > 1}));
  EXPECT_EQ(node.membership.view().epoch, 0u);
  ASSERT_TRUE(node.hear(1, Membership::Accepted{1, ballot}));
  EXPECT_EQ(node.membership.view().epoch, 1u);
}

TEST(MembershipAlone, WhoHasNoVoteIsNamed) {
  FedMembership node(0, 3);
  node.returned(1);
  node.finds(2);
  const auto ballot = node.proposed();
  EXPECT_THAT(node.membership.waiting_for(), Not(HasSubstr("no vote")));
  ASSERT_TRUE(node.hear(0, Membership::Promise{1, ballot, {}, {}}));
  ASSERT_TRUE(node.hear(1, Membership::Promise{1, ballot, {}, {}, true}));
  EXPECT_EQ(node.membership.waiting_for(),
            "a majority: rank 2 (s2); agreement needs 2 of the 3 members of epoch 0, this one "
            "reaches 2; rank 1 (s1) was started again without its folder, and has no vote unless "
            "all members answer");
  node.timer(kRetry, 600s);
  EXPECT_THAT(node.failure, HasSubstr("rank 1 (s1) was started again without its folder"));
  ASSERT_TRUE(node.hear(1, Membership::Decided{1, {0, 2}}));
  EXPECT_THAT(node.membership.waiting_for(), Not(HasSubstr("no vote"))) << "of the list before";
  FedMembership named(1, 3, 0, {0});
  named.returned(0);
  named.finds(2);
  named.timer(kRetry, 2s);
  ASSERT_TRUE(named.hear(0, Membership::Promise{1, named.proposed(), {}, {}, true}));
  EXPECT_THAT(named.membership.waiting_for(), HasSubstr("rank 0 (s0) was started again without"));
}

TEST(MembershipAlone, AtTheEndItLetsNobodyIn) {
  FedMembership node(0, 3);
  node.is_told({0, 1});
  node.returned(2);
  const auto ballot = node.proposed();
  node.close();
  for (const Rank rank : {0u, 1u})
    ASSERT_TRUE(node.hear(rank, Membership::Promise{2, ballot, {}, {}}));
  node.returned(2);
  node.timer(kRetry, 2s);
  EXPECT_THAT(node.sent, IsEmpty());
}

TEST(MembershipAlone, TheWaitBeginsAnewWithEachLoss) {
  FedMembership node(0, 2);
  node.finds(1);
  node.now = 500s;
  node.finds(1, false);
  EXPECT_FALSE(node.timers.contains(kRetry));
  node.now = 590s;
  node.finds(1);
  node.timer(kRetry, 1189s);
  EXPECT_EQ(node.failure, "");
  node.timer(kRetry, 1190s);
  EXPECT_THAT(node.failure, HasSubstr("for 600 s"));
  FedMembership other(0, 4);
  other.finds(3);
  ASSERT_TRUE(other.hear(1, Membership::Decided{1, {0, 1, 2}}));
  other.now = 700s;
  for (const Rank lost : {1u, 2u}) other.finds(lost);
  other.timer(kRetry, 1200s);
  EXPECT_EQ(other.failure, "") << "500 s since the last decision";
}

TEST(MembershipAlone, OneThatHasReturnedIsNotWaitedFor) {
  FedMembership node(0, 4);
  for (const Rank lost : {2u, 3u}) node.finds(lost);
  node.returned(2);
  EXPECT_THAT(node.membership.waiting_for(), HasSubstr("rank 3 (s3); agreement"));
  EXPECT_THAT(node.membership.waiting_for(), Not(HasSubstr("rank 2")));
}

TEST(MembershipAlone, AnswersToAProposalBeforeAreNotCounted) {
  FedMembership node(0, 5);
  node.finds(4);
  const auto first = node.proposed();
  ASSERT_TRUE(node.hear(1, Membership::Promise{1, first, {}, {}}));
  node.timer(kRetry, 2s);
  const auto second = node.proposed();
  for (const Rank rank : {0u, 2u})
    ASSERT_TRUE(node.hear(rank, Membership::Promise{1, second, {}, {}}));
  EXPECT_THAT(node.said<Membership::Accept>(), IsEmpty()) << "two of five";
  ASSERT_TRUE(node.hear(3, Membership::Promise{1, second, {}, {}}));
  ASSERT_TRUE(node.hear(0, Membership::Accepted{1, second}));
  node.timer(kRetry, 4s);
  const auto third = node.proposed();
  for (const Rank rank : {0u, 1u, 2u})
    ASSERT_TRUE(node.hear(rank, Membership::Promise{1, third, {}, {}}));
  for (const Rank rank : {1u, 2u}) ASSERT_TRUE(node.hear(rank, Membership::Accepted{1, third}));
  EXPECT_EQ(node.membership.view().epoch, 0u) << "two of five";
}

TEST(MembershipAlone, TheListOfTheHighestBallotIsProposed) {
  FedMembership node(0, 5);
  node.finds(4);
  const auto ballot = node.proposed();
  ASSERT_TRUE(node.hear(1, Membership::Promise{1, ballot, {3, 1}, {0, 1, 2}}));
  ASSERT_TRUE(node.hear(2, Membership::Promise{1, ballot, {2, 2}, {0, 1, 3}}));
  EXPECT_FALSE(node.hear(3, Membership::Promise{1, ballot, {1, 2}, {3, 2}})) << "no list";
  ASSERT_TRUE(node.hear(0, Membership::Promise{1, ballot, {}, {}}));
  const auto accepts = node.said<Membership::Accept>();
  ASSERT_FALSE(accepts.empty());
  EXPECT_THAT(accepts[0].second.live, ElementsAre(0, 1, 2));
  EXPECT_FALSE(node.hear(1, Membership::Accept{1, {9, 1}, {}})) << "an empty list";
  ASSERT_TRUE(node.hear(3, Membership::Promise{1, ballot, {9, 3}, {0, 1}}));
  EXPECT_THAT(node.said<Membership::Accept>(), IsEmpty()) << "the list is out";
}

TEST(MembershipAlone, ARepeatedQuestionIsAnsweredAgain) {
  FedMembership node(1, 3);
  for (int time = 0; time < 2; ++time) {
    ASSERT_TRUE(node.hear(0, Membership::Prepare{1, {4, 0}}));
    EXPECT_EQ(node.said<Membership::Promise>().size(), 1u);
  }
}

TEST(MembershipAlone, WhoIsLostAgainHasNotReturned) {
  FedMembership node(0, 3);
  node.is_told({0, 1});
  ASSERT_TRUE(node.hear(1, Membership::Decided{2, {0, 1, 2}}));
  const auto told = node.said<Membership::Decided>();
  ASSERT_EQ(told.size(), 2u);
  ASSERT_EQ(told[0].second.returned.size(), 1u);
  EXPECT_EQ(told[0].second.returned[0].rank, 2u);
  EXPECT_EQ(told[0].second.returned[0].epoch, 2u);
  EXPECT_EQ(node.membership.view().since(2), 2u);
  ASSERT_TRUE(node.hear(1, Membership::Decided{3, {0, 1}}));
  EXPECT_TRUE(node.membership.view().returned.empty());
}

TEST(MembershipAlone, EachDecisionIsKept) {
  FedMembership node(0, 3);
  node.start();
  ASSERT_TRUE(node.membership.take_votes());
  node.is_told({0, 1});
  const auto kept = good(node.membership.take_votes());
  const auto votes = good(from_wire<Membership::Votes>(*kept));
  EXPECT_EQ(votes->epoch, 2u);
  EXPECT_THAT(votes->last.live, ElementsAre(0, 1));
  // So is what a process hears before it is let in; and nothing makes it forget.
  FedMembership outside(2, 3, /*incarnation=*/1);
  ASSERT_TRUE(outside.membership.remember(*kept));
  ASSERT_TRUE(outside.membership.take_votes());
  ASSERT_TRUE(outside.hear(1, Membership::Decided{4, {0, 1}, {}, 3}));
  ASSERT_TRUE(outside.membership.take_votes());
  ASSERT_TRUE(outside.hear(1, Membership::Decided{3, {0, 1}, {}, 3}));
  EXPECT_FALSE(outside.membership.take_votes());
  ASSERT_TRUE(outside.hear(1, Membership::Prepare{4, {1, 1}}));
  EXPECT_THAT(outside.said<Membership::Promise>(), IsEmpty()) << "that epoch is over";
  ASSERT_TRUE(outside.hear(1, Membership::Prepare{6, {1, 1}}));
  EXPECT_TRUE(outside.membership.take_votes());
}

TEST(MembershipAlone, OneThatIsLetInProposesWhatItHasFound) {
  FedMembership node(0, 3, /*incarnation=*/1);
  node.start();
  EXPECT_EQ(node.timers.at(kLetIn), 600s);
  node.finds(1);
  EXPECT_THAT(node.sent, IsEmpty());
  ASSERT_TRUE(node.hear(2, Membership::Decided{2, {0, 1, 2}, {{0, 2}}, 3}));
  EXPECT_FALSE(node.timers.contains(kLetIn));
  EXPECT_FALSE(node.said<Membership::Prepare>().empty());
  EXPECT_TRUE(node.membership.take_votes());
}

// Messages of others may come in another order than they were sent.
TEST(MembershipAlone, WhoIsLetInKeepsWhatItHasPromisedOfLaterEpochs) {
  FedMembership node(0, 4, /*incarnation=*/1);
  ASSERT_TRUE(node.hear(1, Membership::Prepare{4, {3, 1}}));
  EXPECT_EQ(node.said<Membership::Promise>().size(), 1u);
  ASSERT_TRUE(node.hear(1, Membership::Decided{2, {0, 1, 2}, {{0, 2}}, 4}));
  ASSERT_TRUE(node.hear(1, Membership::Decided{3, {0, 1}, {{0, 2}}, 4}));
  EXPECT_EQ(node.membership.view().epoch, 3u);
  node.sent.clear();
  ASSERT_TRUE(node.hear(2, Membership::Prepare{4, {2, 2}}));
  EXPECT_THAT(node.said<Membership::Promise>(), IsEmpty()) << "it has promised a higher one";
  ASSERT_TRUE(node.hear(1, Membership::Prepare{4, {4, 1}}));
  EXPECT_EQ(node.said<Membership::Promise>().size(), 1u);
}

TEST(MembershipAlone, WhoIsLetInLooksForMembersOfTheListAlone) {
  FedMembership node(0, 4, /*incarnation=*/1);
  node.finds(3);
  ASSERT_TRUE(node.hear(1, Membership::Decided{2, {0, 1, 2}, {{0, 2}}, 4}));
  EXPECT_EQ(node.membership.waiting_for(), "");
  EXPECT_THAT(node.said<Membership::Prepare>(), IsEmpty());
}

TEST(MembershipAlone, OneThatIsOutsideForgetsNoEpochThatIsOver) {
  FedMembership node(2, 3, /*incarnation=*/1);
  ASSERT_TRUE(node.hear(1, Membership::Decided{1, {0, 1}, {}, 3}));
  ASSERT_TRUE(node.hear(0, Membership::Prepare{1, {1, 0}}));
  EXPECT_THAT(node.said<Membership::Promise>(), IsEmpty());
  FedMembership kept(2, 3, /*incarnation=*/1);
  Membership::Votes votes{.epoch = 1, .promised = {}, .accepted = {}, .live = {}, .last = {}};
  votes.last.live = {0, 1, 2};
  ASSERT_TRUE(kept.membership.remember(to_wire(votes)));
  ASSERT_TRUE(kept.membership.take_votes());
  ASSERT_TRUE(kept.hear(1, Membership::Promise{6, {1, 1}, {}, {}}));
  EXPECT_TRUE(kept.membership.take_votes()) << "it votes on epoch 6 from now on";
}

// What is resumed has other processes; its votes are of another life, and kept anew.
TEST(MembershipAlone, AResumedStateWaitsForNoProcessOfBefore) {
  FedMembership node(0, 4);
  for (const Rank rank : {2u, 3u}) node.returned(rank);
  (void)node.membership.take_votes();
  Archive saved;
  node.membership.state(saved);
  EXPECT_FALSE(node.membership.take_votes()) << "saving changes nothing";
  const Buffer bytes = saved.take();
  FedMembership again(0, 4);
  (void)again.membership.take_votes();
  Archive loaded(bytes);
  again.membership.state(loaded);
  ASSERT_TRUE(loaded.finish());
  EXPECT_TRUE(again.membership.take_votes());
  EXPECT_FALSE(again.membership.has_ended(2));
  again.timer(kRetry, 2s);
  EXPECT_THAT(again.said<Membership::Prepare>(), IsEmpty());
}

TEST(MembershipAlone, NamesAtMostEight) {
  FedMembership node(0, 20);
  for (Rank rank = 1; rank <= 8; ++rank) node.finds(rank);
  EXPECT_THAT(node.membership.waiting_for(), HasSubstr("rank 8 (s8); agreement"));
  for (Rank rank = 9; rank <= 10; ++rank) node.finds(rank);
  EXPECT_THAT(node.membership.waiting_for(), HasSubstr("rank 8 (s8) and 2 more; agreement"));
}

// --- a named site decides

TEST(MembershipAlone, TheNamedSiteAloneDecides) {
  FedMembership named(0, 4, 0, {0}), others(1, 4, 0, {0});
  for (const Rank lost : {1u, 2u, 3u}) named.finds(lost);
  auto prepares = named.said<Membership::Prepare>();
  ASSERT_FALSE(prepares.empty());
  const auto ballot = prepares.back().second.ballot;
  ASSERT_TRUE(named.hear(0, Membership::Promise{1, ballot, {}, {}}));
  ASSERT_TRUE(named.hear(0, Membership::Accepted{1, ballot}));
  EXPECT_THAT(
      std::vector<Rank>(named.membership.view().live.begin(), named.membership.view().live.end()),
      ElementsAre(0));
  others.finds(0);
  others.timer(kRetry, 10s);
  EXPECT_THAT(others.said<Membership::Prepare>(), IsEmpty()) << "three of four are not enough";
  EXPECT_THAT(others.membership.waiting_for(), HasSubstr("the part that holds site s0"));
}

// Of two sites none can outvote the other; that is worth a remedy.
TEST(MembershipAlone, NamesRemediesToTwo) {
  FedMembership two(0, 2), three(0, 3);
  two.finds(1);
  three.finds(1);
  EXPECT_THAT(two.membership.waiting_for(), HasSubstr("roles = [\"witness\"]"));
  EXPECT_THAT(two.membership.waiting_for(), HasSubstr("continue_with"));
  EXPECT_THAT(three.membership.waiting_for(), Not(HasSubstr("witness")));
}

TEST(MembershipAlone, WhoWasDeclaredLostAnswersNothing) {
  FedMembership node(2, 3);
  ASSERT_TRUE(node.hear(1, Membership::Decided{1, {0, 1}}));
  EXPECT_THAT(node.failure, HasSubstr("declared this one lost"));
  node.sent.clear();
  ASSERT_TRUE(node.hear(1, Membership::Prepare{2, {1, 1}}));
  EXPECT_THAT(node.sent, IsEmpty());
}

TEST(MembershipAlone, WhoComesBackIsInWhenAListSaysSo) {
  FedMembership node(2, 3, /*incarnation=*/1);
  node.start();
  EXPECT_FALSE(node.hear(1, Membership::Decided{2, {0, 1, 2}, {{2, 2}}, 0})) << "founders: none";
  EXPECT_FALSE(node.hear(1, Membership::Decided{2, {0, 1, 2}, {{2, 2}}, 4}))
      << "more than there are";
  ASSERT_TRUE(node.hear(1, Membership::Decided{1, {0, 1}, {}, 3}))
      << "which speaks of the one before it";
  ASSERT_TRUE(node.hear(1, Membership::Decided{2, {0, 1, 2}, {}, 3}))
      << "which holds the one before it";
  EXPECT_EQ(node.membership.waiting_for(), "the other sites to let it in");
  ASSERT_TRUE(node.hear(1, Membership::Decided{2, {0, 1, 2}, {{2, 2}}, 1}));
  EXPECT_EQ(node.membership.waiting_for(), "");
  EXPECT_EQ(node.membership.view().epoch, 2u);
  EXPECT_EQ(node.membership.view().since(2), 2u);
  EXPECT_EQ(node.membership.view().founders, 1u);
  node.timer(kLetIn);  // it came as the list did
  EXPECT_EQ(node.failure, "");
  ASSERT_TRUE(node.hear(1, Membership::Prepare{3, {1, 1}}));
  EXPECT_EQ(node.said<Membership::Promise>().size(), 1u);
}

TEST(MembershipAlone, WhoIsNotLetInFails) {
  FedMembership node(2, 3, /*incarnation=*/1);
  node.start();
  node.timer(kLetIn);
  EXPECT_THAT(node.failure, HasSubstr("have not let this one in within 600 s"));
}

}  // namespace
}  // namespace longhaul
