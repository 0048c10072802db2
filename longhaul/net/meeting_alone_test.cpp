// One Meeting, fed by hand. Many, with their nodes: meeting_test.cpp.
#include "longhaul/net/meeting.h"

#include <gmock/gmock.h>

#include "longhaul/base/testing/result.h"

namespace longhaul::net {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

struct FedMeeting {
  explicit FedMeeting(std::uint32_t size = 3, std::uint32_t incarnation = 0,
                      bool lets_return = true, std::vector<Rank> named = {},
                      std::set<Rank> servers = {}, std::set<Rank> left_out = {})
      : meeting(place_of(size, incarnation, std::move(named)),
                {.process = 100,
                 .left_out = std::move(left_out),
                 .nothing_to_rejoin = 3s,
                 .told_so = 1s,
                 .fresh = 1s,
                 .heard_within = 3s,
                 .connect_within = 12s,
                 .lets_return = lets_return,
                 .servers = std::move(servers)},
                [this](Rank peer) { return contacts[peer]; }) {}
  static Place place_of(std::uint32_t size, std::uint32_t incarnation, std::vector<Rank> named) {
    Members members;
    for (Rank rank = 0; rank < size; ++rank) members.push_back({"s" + std::to_string(rank)});
    members[0].incarnation = incarnation;
    Place place{.self = 0,
                .members = std::make_shared<const Members>(std::move(members)),
                .layout = Layout::flat(1)};
    place.quorum.named = std::move(named);
    return place;
  }
  static Hello hello(Rank rank, std::uint64_t process) {
    return {.rank = rank,
            .site = "s" + std::to_string(rank),
            .process = process,
            .keys = {},
            .inputs = {},
            .have = {}};
  }
  static Hello member(Rank rank, std::uint64_t process, std::uint64_t life,
                      std::uint32_t incarnation = 0) {
    Hello one = hello(rank, process);
    one.running = true;
    one.life = life;
    one.incarnation = incarnation;
    return one;
  }
  static Hello asks(Rank rank, std::uint64_t process) {
    Hello one = hello(rank, process);
    one.incarnation = 1;
    return one;
  }
  static Hello offers(Rank rank, std::uint64_t process, std::uint64_t newest, Epoch epoch = 0,
                      std::vector<Rank> lost = {}, std::vector<Membership::Return> returned = {}) {
    Hello one = hello(rank, process);
    one.checkpointed = {0, newest};
    one.members = 3;
    one.epoch = epoch;
    one.lost = std::move(lost);
    one.returned = std::move(returned);
    return one;
  }
  void connect(Rank rank, std::uint64_t process) { contacts[rank] = {process, true, true, false}; }
  // "" if it accepts, "replaces" if as a new process; else how it refuses.
  std::string answer(const Hello& hello, Time now = 0s) {
    const auto answer = meeting.hear(hello, now);
    if (!answer.refusal) return answer.replaces ? "replaces" : "";
    EXPECT_FALSE(answer.replaces);
    const char* const kinds[] = {"final", "later", "rejoin", "resume", "lost"};
    return kinds[std::size_t(answer.refusal->kind)];
  }
  // Both others are here, and it has begun.
  void run_with_both() {
    for (const Rank rank : {1u, 2u}) {
      EXPECT_EQ(answer(hello(rank, 200 + rank)), "");
      connect(rank, 200 + rank);
    }
    EXPECT_TRUE(meeting.complete(0s));
    meeting.open();
  }

  std::map<Rank, Meeting::Contact> contacts;
  Meeting meeting;
};

TEST(MeetingAlone, AMemberAnswersByWhoCalls) {
  FedMeeting node;
  node.run_with_both();
  EXPECT_TRUE(node.meeting.is_member());
  EXPECT_EQ(node.meeting.life(), 100u) << "of the lowest rank that is here: its own";
  EXPECT_EQ(node.answer(node.hello(1, 201)), "") << "known, and about to begin";
  EXPECT_EQ(node.answer(node.member(1, 201, 100)), "") << "known";
  // A new process, while the former is heard: later, and after twice that time the link decides.
  EXPECT_EQ(node.answer(node.hello(1, 301), 10s), "later");
  EXPECT_EQ(node.answer(node.hello(1, 301), 16s), "later");
  EXPECT_EQ(node.answer(node.hello(1, 301), 17s), "");
  EXPECT_EQ(node.answer(node.asks(1, 302), 17s), "later") << "another one: anew";
  EXPECT_EQ(node.answer(node.asks(1, 302), 24s), "");
  EXPECT_FALSE(node.meeting.has_restarted(1));
  EXPECT_FALSE(node.meeting.is_stranger(1));
  // It is not heard any more.
  node.contacts[1] = {201, false, false, false};
  EXPECT_EQ(node.answer(node.hello(1, 301), 24s), "rejoin");
  EXPECT_TRUE(node.meeting.has_restarted(1));
  EXPECT_EQ(node.answer(node.asks(1, 302), 24s), "replaces");
  EXPECT_TRUE(node.meeting.is_stranger(1));
  node.contacts[1] = {302, true, true, false};
  EXPECT_EQ(node.answer(node.asks(1, 302), 24s), "") << "another stream of it";
  EXPECT_TRUE(node.meeting.forget_stranger(1));
  EXPECT_FALSE(node.meeting.forget_stranger(1));
  node.meeting.replaced(1);
  EXPECT_FALSE(node.meeting.has_restarted(1));
  EXPECT_EQ(node.answer(node.member(1, 302, 100, 1)), "") << "let in";
}

TEST(MeetingAlone, AClaimIsOverWhenTheFormerProcessIsNotHeard) {
  FedMeeting node;
  node.run_with_both();
  EXPECT_EQ(node.answer(node.hello(1, 301), 10s), "later");
  node.contacts[1] = {201, false, false, false};
  EXPECT_EQ(node.answer(node.hello(1, 301), 12s), "rejoin");
  node.contacts[1] = {201, true, true, false};
  EXPECT_EQ(node.answer(node.hello(1, 301), 17s), "later") << "anew";
}

TEST(MeetingAlone, AMemberSaysWhoIsLost) {
  for (const bool lets_return : {true, false}) {
    FedMeeting node(3, 0, lets_return);
    node.run_with_both();
    node.contacts[1] = {201, false, false, true};
    EXPECT_EQ(node.answer(node.member(1, 201, 100)), lets_return ? "lost" : "final");
    EXPECT_EQ(node.answer(node.member(1, 201, 100, 1)), lets_return ? "lost" : "final");
    EXPECT_EQ(node.answer(node.hello(1, 201)), "rejoin") << "it has not begun, and the others have";
    EXPECT_EQ(node.answer(node.asks(1, 301)), lets_return ? "replaces" : "final");
  }
}

TEST(MeetingAlone, AnAskingProcessGetsALinkOfItsOwn) {
  FedMeeting node;
  node.run_with_both();
  node.contacts[1] = {};
  EXPECT_EQ(node.answer(node.member(1, 301, 100, 1)), "") << "let in by the others";
  EXPECT_EQ(node.answer(node.asks(1, 301)), "replaces");
  node.contacts[1] = {201, false, false, true};
  EXPECT_EQ(node.answer(node.asks(1, 201)), "replaces") << "it was gone for a while";
  EXPECT_EQ(node.answer(node.member(1, 301, 100, 1)), "replaces");
}

TEST(MeetingAlone, RunsOfOtherLivesAreToldApart) {
  FedMeeting node;
  node.run_with_both();
  node.contacts[1] = {};  // it was not met
  EXPECT_EQ(node.answer(node.member(1, 201, 7)), "rejoin");
  EXPECT_EQ(node.answer(node.member(1, 201, 100)), "");
  node.contacts[1] = {150, false, false, false};
  EXPECT_EQ(node.answer(node.member(1, 201, 100)), "replaces") << "the link is of a process before";
  EXPECT_EQ(node.answer(node.member(1, 201, 7)), "rejoin");
}

TEST(MeetingAlone, AtTheEndNoNewProcessIsTaken) {
  FedMeeting node;
  node.run_with_both();
  node.meeting.end();
  EXPECT_EQ(node.answer(node.asks(1, 301)), "final");
  EXPECT_EQ(node.answer(node.member(1, 201, 100)), "");
}

TEST(MeetingAlone, OneThatArrivesHasNoRunToRejoin) {
  FedMeeting node;
  EXPECT_EQ(node.answer(node.asks(1, 201)), "resume");
  EXPECT_TRUE(node.meeting.asks(1));
  EXPECT_TRUE(node.meeting.must_ask(node.member(1, 202, 7)));
  node.meeting.on_known(node.member(1, 202, 7));
  EXPECT_FALSE(node.meeting.must_ask(node.member(1, 202, 7)));
  EXPECT_TRUE(node.meeting.must_ask(node.member(1, 203, 7))) << "another process";
  EXPECT_FALSE(node.meeting.must_ask(node.hello(1, 203)));
  EXPECT_EQ(node.answer(node.hello(1, 204)), "");
  EXPECT_FALSE(node.meeting.asks(1));
}

// The member has begun with this process: so does it. Another may be in the run that only has to
// connect here: it is waited for.
TEST(MeetingAlone, AMemberThatCountsOnItEndsTheWait) {
  FedMeeting node;
  node.meeting.offer({.newest = 5, .members = 3, .has_before = true, .view = {}});
  node.connect(1, 201);
  EXPECT_EQ(node.answer(node.offers(1, 201, 5)), "");
  EXPECT_FALSE(node.meeting.complete(0s));
  Hello begun = node.member(1, 201, 77);
  begun.checkpointed = {4, 4};
  EXPECT_EQ(node.answer(begun), "");
  EXPECT_FALSE(node.meeting.complete(1s));
  EXPECT_FALSE(node.meeting.complete(12s));
  node.connect(2, 202);
  EXPECT_TRUE(node.meeting.complete(12s));
  node.contacts.erase(2);
  EXPECT_TRUE(node.meeting.complete(13s)) << "it may be lost";
  EXPECT_EQ(**node.meeting.choose_checkpoint(), 4u) << "what they resumed from";
  node.meeting.open();
  EXPECT_EQ(node.meeting.life(), 77u);
}

TEST(MeetingAlone, WhoWasHeardLongAgoIsAskedAgain) {
  FedMeeting node;
  EXPECT_EQ(node.answer(node.hello(1, 201), 0s), "");
  node.connect(1, 201);
  EXPECT_FALSE(node.meeting.complete(0s));
  EXPECT_THAT(node.meeting.to_ask(), ::testing::IsEmpty()) << "one is missing";
  EXPECT_EQ(node.answer(node.hello(2, 202), 5s), "");
  node.connect(2, 202);
  EXPECT_FALSE(node.meeting.complete(5s));
  EXPECT_THAT(node.meeting.to_ask(), ::testing::ElementsAre(1));
  EXPECT_EQ(node.answer(node.hello(1, 201), 6s), "");
  EXPECT_TRUE(node.meeting.complete(9s)) << "it was heard after the last one came";
}

TEST(MeetingAlone, TheCheckpointIsOfAQuorumOfItsView) {
  const auto choose = [](std::uint64_t own, bool before, Epoch epoch, std::vector<Hello> others) {
    FedMeeting node;
    View view{.epoch = epoch, .live = RankList::below(3)};
    node.meeting.offer({.newest = own, .members = 3, .has_before = before, .view = view});
    for (const Hello& one : others) {
      EXPECT_EQ(node.answer(one), "");
      node.connect(one.rank, one.process);
    }
    const auto chosen = node.meeting.choose_checkpoint();
    return !chosen ? std::string("none") : !*chosen ? "rejoin" : std::to_string(**chosen);
  };
  using Fed = FedMeeting;
  EXPECT_EQ(choose(0, false, 0, {Fed::hello(1, 1), Fed::hello(2, 2)}), "0");
  EXPECT_EQ(choose(5, true, 0, {Fed::offers(1, 1, 5)}), "5");
  EXPECT_EQ(choose(5, true, 0, {Fed::offers(1, 1, 4), Fed::offers(2, 2, 5)}), "4");
  EXPECT_EQ(choose(5, false, 0, {Fed::offers(1, 1, 4), Fed::offers(2, 2, 5)}), "rejoin")
      << "it has not the one before";
  EXPECT_EQ(choose(5, true, 0, {}), "none") << "one of three";
  for (const std::uint64_t own : {0u, 5u})
    EXPECT_EQ(choose(own, own > 0, 0, {Fed::hello(1, 1), Fed::offers(2, 2, own > 0 ? 0 : 5)}),
              "none")
        << "two without a folder begin no new run beside one that has a checkpoint";
  EXPECT_EQ(choose(0, false, 0, {Fed::hello(1, 1), Fed::offers(2, 2, 1)}), "0");
  EXPECT_EQ(choose(0, false, 0, {Fed::hello(1, 1), Fed::offers(2, 2, 2)}), "none");
  EXPECT_EQ(choose(2, true, 0, {Fed::offers(1, 1, 5), Fed::offers(2, 2, 5)}), "rejoin");
  EXPECT_EQ(choose(5, true, 0, {Fed::offers(1, 1, 2), Fed::offers(2, 2, 2)}), "none")
      << "of another run";
  // It is not in the view of the others' checkpoint of that number; or has returned to it since.
  EXPECT_EQ(choose(5, true, 0, {Fed::offers(1, 1, 5, 1, {0}), Fed::offers(2, 2, 5, 1, {0})}),
            "rejoin");
  EXPECT_EQ(choose(5, true, 0,
                   {Fed::offers(1, 1, 5, 2, {}, {{0, 2}}), Fed::offers(2, 2, 5, 2, {}, {{0, 2}})}),
            "rejoin");
  EXPECT_EQ(choose(5, true, 2,
                   {Fed::offers(1, 1, 5, 2, {}, {{0, 2}}), Fed::offers(2, 2, 5, 2, {}, {{0, 2}})}),
            "5");
  // In that view, but without a checkpoint since they have returned: they count.
  EXPECT_EQ(choose(5, true, 2, {}), "none");
  EXPECT_EQ(choose(0, false, 0, {Fed::offers(1, 1, 5, 2, {}, {{0, 2}, {2, 2}}), Fed::hello(2, 2)}),
            "rejoin");
  EXPECT_EQ(choose(5, true, 2, {Fed::offers(1, 1, 5, 2, {}, {{0, 2}}), Fed::hello(2, 2)}), "5");
  // One that was lost has another checkpoint of the number before than those that went on.
  EXPECT_EQ(choose(6, true, 1, {Fed::offers(2, 2, 5)}), "5");
  EXPECT_EQ(choose(5, true, 0, {Fed::offers(1, 1, 6, 1, {0})}), "none");
}

TEST(MeetingAlone, WhoHasLessThanTheOthersWaitsUntilTheyHaveBegun) {
  FedMeeting node;
  node.meeting.offer({.newest = 1, .members = 3, .has_before = true, .view = {}});
  for (const Rank rank : {1u, 2u}) {
    EXPECT_EQ(node.answer(node.offers(rank, 200 + rank, 5)), "");
    node.connect(rank, 200 + rank);
  }
  EXPECT_FALSE(node.meeting.complete(0s));
  EXPECT_THAT(node.meeting.to_ask(), ::testing::ElementsAre(1, 2));
  EXPECT_FALSE(node.meeting.can_resume());
}

TEST(MeetingAlone, WithoutAStateNothingIsResumed) {
  FedMeeting node;
  for (const Rank rank : {1u, 2u}) {
    EXPECT_EQ(node.answer(node.hello(rank, 200 + rank)), "");
    node.connect(rank, 200 + rank);
  }
  EXPECT_TRUE(node.meeting.choose_checkpoint()) << "all begin";
  EXPECT_FALSE(node.meeting.can_resume());
}

TEST(MeetingAlone, AQuorumIsOfTheCheckpointsView) {
  FedMeeting node;
  View two{.epoch = 1, .live = RankList::below(3)};
  two.live.erase(2);
  node.meeting.offer({.newest = 1, .members = 3, .has_before = true, .view = two});
  EXPECT_FALSE(node.meeting.can_resume()) << "one of two";
  EXPECT_EQ(node.answer(node.hello(2, 202)), "");
  node.connect(2, 202);
  EXPECT_THAT(failure(node.meeting.choose_checkpoint()).what,
              HasSubstr("s0 checkpoint 1, s2 none."));
  EXPECT_EQ(node.answer(node.offers(1, 201, 1, 1, {2})), "");
  node.connect(1, 201);
  EXPECT_TRUE(node.meeting.can_resume());
}

TEST(MeetingAlone, WhoWasAloneInTheViewResumesAlone) {
  for (const bool of_a_smaller_job : {false, true}) {
    FedMeeting node;
    View alone{.epoch = 1, .live = RankList::below(1)};
    if (of_a_smaller_job) alone = {};
    node.meeting.offer({.newest = 1,
                        .members = of_a_smaller_job ? 1u : 3u,
                        .has_before = true,
                        .view = std::move(alone)});
    EXPECT_TRUE(node.meeting.can_resume());
  }
}

// The named site was added to the job since that checkpoint.
TEST(MeetingAlone, ASiteThatWasNotInTheJobDecidesNothing) {
  FedMeeting node(3, 0, true, {2});
  Hello before = node.offers(1, 201, 5);
  before.members = 2;
  EXPECT_EQ(node.answer(before), "");
  node.connect(1, 201);
  const auto chosen = good(node.meeting.choose_checkpoint());
  EXPECT_FALSE(*chosen) << "the two that were in it are here: it rejoins";
}

// A view of its size would take gigabytes.
TEST(MeetingAlone, ALiarsNumberOfMembersIsBounded) {
  FedMeeting node;
  node.meeting.offer({.newest = 5, .members = 3, .has_before = true, .view = {}});
  Hello liar = node.offers(1, 201, 5);
  liar.members = ~0u;
  EXPECT_EQ(node.answer(liar), "");
  node.connect(1, 201);
  EXPECT_TRUE(node.meeting.can_resume()) << "two of three, as without the lie";
}

TEST(MeetingAlone, TheNamedSiteMustBeHere) {
  for (const bool here : {false, true}) {
    FedMeeting node(3, 0, true, {1});
    node.meeting.offer({.newest = 5, .members = 3, .has_before = true, .view = {}});
    EXPECT_EQ(node.answer(node.offers(2, 202, 5)), "");
    node.connect(2, 202);
    if (here) {
      EXPECT_EQ(node.answer(node.hello(1, 201)), "") << "without a checkpoint";
      node.connect(1, 201);
    }
    EXPECT_EQ(node.meeting.can_resume(), here);
  }
}

// No other node has what it held: the others resume with it, or not at all.
TEST(MeetingAlone, WithoutTheStateOfTheServerNothingIsResumed) {
  const auto choose = [](std::uint64_t own, std::vector<Hello> others,
                         std::set<Rank> left_out = {}) {
    FedMeeting node(3, 0, true, {}, /*servers=*/{1}, std::move(left_out));
    node.meeting.offer({.newest = own, .members = 3, .has_before = own > 0, .view = {}});
    for (const Hello& one : others) {
      EXPECT_EQ(node.answer(one), "");
      node.connect(one.rank, one.process);
    }
    const auto chosen = node.meeting.choose_checkpoint();
    EXPECT_EQ(node.meeting.state_is_gone(),
              !chosen && chosen.error().what.starts_with("the state of the server"));
    return !chosen ? chosen.error().what : !*chosen ? "rejoin" : std::to_string(**chosen);
  };
  using Fed = FedMeeting;
  EXPECT_EQ(choose(5, {Fed::offers(1, 1, 5), Fed::offers(2, 2, 5)}), "5");
  EXPECT_EQ(choose(5, {Fed::offers(1, 1, 4), Fed::offers(2, 2, 5)}), "4");
  EXPECT_EQ(choose(5, {Fed::offers(1, 1, 5)}), "5") << "a worker is missing";
  EXPECT_THAT(choose(5, {Fed::offers(2, 2, 5)}), HasSubstr("hold different states"))
      << "the server is missing, and may come";
  EXPECT_EQ(choose(1, {Fed::hello(1, 1), Fed::offers(2, 2, 1)}), "0")
      << "before it had a checkpoint: all begin";
  EXPECT_EQ(choose(5, {Fed::hello(1, 1), Fed::offers(2, 2, 5)}),
            "the state of the server, site s1 (rank 1), is gone: its folder has no checkpoint, and "
            "the others have checkpoint 5, which does not hold it. Bring the folder of site s1 "
            "back, or start all sites with --force to begin anew; with [server] standby_every "
            "other sites keep a copy");
  EXPECT_THAT(choose(5, {Fed::offers(1, 1, 2), Fed::offers(2, 2, 5)}),
              HasSubstr("its folder has checkpoint 2, and the others have checkpoint 5"));
  EXPECT_THAT(choose(5, {Fed::offers(2, 2, 5)}, {1}), HasSubstr("[run] without leaves it out"));
}

TEST(MeetingAlone, OneThatAsksLooksForMembersAlone) {
  FedMeeting node(3, 1);
  EXPECT_FALSE(node.meeting.is_member());
  EXPECT_EQ(node.answer(node.asks(2, 202)), "later");
  EXPECT_EQ(node.answer(node.hello(2, 203)), "later");
  node.contacts[1] = {201, false, false, false};
  EXPECT_EQ(node.answer(node.hello(1, 301)), "later");
  EXPECT_EQ(node.answer(node.member(1, 301, 7)), "") << "it has no link of its own yet";
  EXPECT_EQ(node.answer(node.hello(1, 301)), "later");
  node.contacts.clear();
  EXPECT_FALSE(node.meeting.nothing_to_rejoin(0s));
  EXPECT_FALSE(node.meeting.nothing_to_rejoin(2s));
  EXPECT_TRUE(node.meeting.nothing_to_rejoin(3s));
  EXPECT_EQ(node.answer(node.member(1, 201, 7), 3s), "");
  node.connect(1, 201);
  EXPECT_TRUE(node.meeting.meets_member());
  EXPECT_FALSE(node.meeting.nothing_to_rejoin(9s));
  EXPECT_TRUE(node.meeting.complete(9s)) << "one is enough";
  EXPECT_EQ(node.answer(node.hello(1, 201), 9s), "later");
  EXPECT_FALSE(node.meeting.meets_member()) << "it has left the run";
  EXPECT_EQ(node.answer(node.member(1, 201, 7), 9s), "");
  node.meeting.open();
  EXPECT_EQ(node.meeting.life(), 7u);
  EXPECT_FALSE(node.meeting.is_member());
  // The member's process is over, and another of its rank runs the same life: the link is its.
  node.contacts[1] = {201, false, false, false};
  EXPECT_EQ(node.answer(node.member(1, 301, 7), 9s), "replaces");
  node.contacts[1] = {301, false, false, false};
  EXPECT_EQ(node.answer(node.member(1, 301, 7), 9s), "") << "the link is of this one";
  node.contacts[1] = {201, false, false, false};
  EXPECT_FALSE(node.meeting.nothing_to_rejoin(10s));
  node.meeting.told_to_resume();
  EXPECT_TRUE(node.meeting.nothing_to_rejoin(11s)) << "sooner if somebody says so";
  EXPECT_EQ(node.answer(node.member(2, 202, 8), 9s), "later") << "of another life";
  node.connect(1, 301);
  EXPECT_TRUE(node.meeting.nothing_to_rejoin(9s)) << "at once: its run is over";
  node.meeting.admit();
  EXPECT_TRUE(node.meeting.is_member());
  EXPECT_FALSE(node.meeting.nothing_to_rejoin(30s));
}

}  // namespace
}  // namespace longhaul::net
