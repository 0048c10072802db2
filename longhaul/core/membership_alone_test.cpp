// One node's Membership, fed by hand: what the others say is made up here, so that each answer can
// be looked at. Whole agreements, in any order of events: membership_test.cpp.
#include <gmock/gmock.h>

#include "longhaul/core/membership.h"

namespace longhaul {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr TimerId kRetry{1}, kLetIn{2};

struct FedMembership {
  FedMembership(Rank self, std::uint32_t size, std::uint32_t incarnation = 0)
      : membership(place_of(self, size, incarnation)) {}

  void finds(Rank peer, bool unreachable = true) {
    turn([&](Turn& turn) { membership.on_reachability(peer, unreachable, turn); });
  }
  void returned(Rank peer) {
    turn([&](Turn& turn) { membership.on_returned(peer, turn); });
  }
  void start() {
    turn([&](Turn& turn) { membership.on_start(turn); });
  }
  void timer(TimerId id) {
    turn([&](Turn& turn) { membership.on_timer(id, turn); });
  }
  template <class M>
  Status hear(Rank from, const M& fields) {
    Message message;
    message.kind = M::kKind;
    message.head = Payload(share(to_wire(fields)));
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
  std::vector<std::pair<Rank, Message>> sent;
  std::string failure;

 private:
  const Place& place_of(Rank self, std::uint32_t size, std::uint32_t incarnation) {
    auto members = std::make_shared<Members>();
    for (std::uint32_t rank = 0; rank < size; ++rank)
      members->push_back({"s" + std::to_string(rank)});
    members->at(self).incarnation = incarnation;
    place.self = self;
    place.members = members;
    return place;
  }
  void turn(const std::function<void(Turn&)>& input) {
    TurnContext context{.place = &place, .view = &membership.view()};
    Turn turn(context);
    input(turn);
    for (Action& action : context.actions) {
      if (const auto* send = std::get_if<Send>(&action)) sent.emplace_back(send->to, send->message);
      if (const auto* fail = std::get_if<Fail>(&action)) failure = fail->error.what;
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
    node.timer(kRetry);
    EXPECT_EQ(node.said<Membership::Prepare>().size(), 3u);
    node.finds(2, false);
    node.sent.clear();
  }
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

TEST(MembershipAlone, GivesUpAfterFiveRetriesWithoutAMajorityInReach) {
  FedMembership half(0, 4), most(0, 3);
  for (const Rank lost : {2u, 3u}) half.finds(lost);
  most.finds(2);
  for (int retry = 0; retry < 4; ++retry) half.timer(kRetry);
  EXPECT_EQ(half.failure, "");
  half.timer(kRetry);
  EXPECT_THAT(half.failure, HasSubstr("needs 3 of the 4 members"));
  for (int retry = 0; retry < 20; ++retry) most.timer(kRetry);
  EXPECT_EQ(most.failure, "") << "two of three are a majority";
}

// Of two sites none can outvote the other; that is worth a remedy.
TEST(MembershipAlone, NamesTheWitnessToTwo) {
  FedMembership two(0, 2), three(0, 3);
  two.finds(1);
  three.finds(1);
  EXPECT_THAT(two.membership.waiting_for(), HasSubstr("roles = [\"witness\"]"));
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

TEST(MembershipAlone, WhoComesBackVotesOnNothingUntilItIsLetIn) {
  FedMembership node(2, 3, /*incarnation=*/1);
  node.start();
  ASSERT_TRUE(node.hear(1, Membership::Prepare{1, {1, 1}}));
  EXPECT_THAT(node.sent, IsEmpty());
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
  EXPECT_THAT(node.failure, HasSubstr("have not let this one in within 60 s"));
}

}  // namespace
}  // namespace longhaul
