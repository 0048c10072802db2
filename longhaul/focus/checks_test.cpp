// The two halves of the accurate model, of checks.h, without a host.
#include "longhaul/focus/checks.h"

#include <gtest/gtest.h>

#include "longhaul/base/testing/result.h"

namespace longhaul::focus {
namespace {

using namespace std::chrono_literals;

constexpr Rank kVerifier = 1;
constexpr std::uint32_t kBatch = 2, kClasses = 3;

// The machines of rank 0, which has an index of ten clusters, in one turn after the other.
struct SiteOfChecks {
  SiteOfChecks() {
    Members members;
    for (Rank rank = 0; rank < 2; ++rank) members.push_back({"site" + std::to_string(rank)});
    place.members = std::make_shared<const Members>(members);
    place.layout = Layout::flat(1);
    view.live = {0, 1};
    IndexConfig config{.threshold = 0, .specialised = kClasses, .classes = kClasses};
    index.emplace(config);
    for (std::uint64_t seq = 1; seq <= 10; ++seq)
      (void)index->add({seq, 0, {0}, {1, 0, 0, 0}}, 0, std::vector<float>{float(seq)});
  }
  void turn(auto&& enter) {
    TurnContext context{.now = now, .place = &place, .view = &view, .credits = &credits};
    Turn one(context);
    enter(one);
    sent.clear();
    timers.clear();
    for (const Action& action : context.actions) {
      if (const auto* send = std::get_if<Send>(&action)) sent.push_back(*send);
      if (const auto* timer = std::get_if<SetTimer>(&action)) timers.push_back(timer->at);
    }
  }
  // What is sent by advance(), to whom.
  std::vector<Rank> advance() {
    turn([&](Turn& t) { checks.advance(*index, t); });
    std::vector<Rank> ranks;
    for (const Send& send : sent) ranks.push_back(send.to);
    return ranks;
  }
  Check check_sent(std::size_t at) const {
    return *from_wire<Check>(sent.at(at).message.head.view());
  }
  auto take(const Verdict& verdict) { return checks.take(kVerifier, verdict, kClasses); }

  Place place;
  View view;
  Credits credits;
  Time now{0};
  std::optional<Index> index;
  Machine node;
  Checks checks{node, kBatch, 4, 8s};
  std::vector<Send> sent;
  std::vector<Time> timers;
};

using Ranks = std::vector<Rank>;

TEST(Checks, AVerifierThatSaysNothingIsGivenUpAndAskedAgainWhenItHasAnswered) {
  SiteOfChecks site;
  for (std::uint64_t cluster = 0; cluster < 6; ++cluster) site.checks.request(cluster, kVerifier);
  EXPECT_EQ(site.advance(), (Ranks{1, 1}));  // two batches on their way, one waits
  const std::uint64_t first = site.check_sent(0).batch, second = site.check_sent(1).batch;
  EXPECT_EQ(site.timers, (std::vector<Time>{8s}));
  site.now = 6s;
  // The other batch it does not name, and who is not asked says nothing.
  EXPECT_TRUE(site.checks.take(kVerifier, StillChecking{first}, site.now));
  EXPECT_TRUE(site.checks.take(0, StillChecking{second}, site.now));
  site.now = 8s;
  EXPECT_EQ(site.advance(), (Ranks{0, 0}));  // the second, and what waits
  EXPECT_EQ(site.check_sent(0).items.at(0).cluster, 2u);
  EXPECT_EQ(site.check_sent(1).items.at(0).cluster, 4u);
  EXPECT_EQ(site.checks.given_up(), std::set<Rank>{kVerifier});
  site.checks.request(7, kVerifier);
  EXPECT_EQ(site.advance(), Ranks{});  // here, where two are on their way
  const auto late = good(site.take({.batch = second, .version = 1, .classes = {0, 1}}));
  EXPECT_TRUE(late->empty());  // they are checked here by now
  EXPECT_TRUE(site.checks.given_up().empty());
  const auto kept = good(site.take({.batch = first, .version = 1, .classes = {2, 1}}));
  EXPECT_EQ(*kept, (std::vector<std::pair<std::uint64_t, std::uint32_t>>{{0, 2}, {1, 1}}));
  site.credits = {};  // the two batches have left
  site.checks.request(8, kVerifier);
  EXPECT_EQ(site.advance(), (Ranks{1}));
}

TEST(Checks, WhatALostOneHadBeenGivenUpForIsNotCheckedTwice) {
  SiteOfChecks site;
  for (std::uint64_t cluster = 0; cluster < 2; ++cluster) site.checks.request(cluster, kVerifier);
  EXPECT_EQ(site.advance(), Ranks{1});
  site.now = 8s;
  EXPECT_EQ(site.advance(), Ranks{0});
  site.view.live = {0};
  site.turn([&](Turn& t) { site.checks.on_view(t); });
  EXPECT_EQ(site.advance(), Ranks{});
  EXPECT_EQ(site.checks.pending(), 2u);
}

TEST(Checks, VerdictsThatCannotBeLeaveTheBatchOnItsWay) {
  SiteOfChecks site;
  site.checks.request(0, kVerifier);
  site.checks.request(1, kVerifier);
  EXPECT_EQ(site.advance(), Ranks{1});
  const std::uint64_t batch = site.check_sent(0).batch;
  EXPECT_FALSE(site.take({.batch = batch, .version = 1, .classes = {0}}));
  EXPECT_FALSE(site.take({.batch = batch, .version = 1, .classes = {0, kClasses}}));
  EXPECT_FALSE(site.checks.take(0, {.batch = batch, .version = 1, .classes = {0, 0}}, kClasses));
  EXPECT_TRUE(site.take({.batch = batch + 1, .version = 1, .classes = {0}})->empty());
  EXPECT_EQ(site.checks.pending(), 2u);
  EXPECT_EQ(site.take({.batch = batch, .version = 1, .classes = {0, 2}})->size(), 2u);
  EXPECT_EQ(site.checks.pending(), 0u);
}

TEST(Verifier, SaysOfEveryBatchThatItIsHere) {
  SiteOfChecks at;
  Verifier verifier(at.node, 1, 1, 8s);
  const Check check{.batch = 7, .length = 1, .stride = 4, .items = {{3, 4, 0}}};
  const Payload body(share(Buffer(4)));
  ASSERT_TRUE(verifier.take(1, check, body, 0s));
  ASSERT_TRUE(verifier.take(0, check, body, 0s));  // its own
  at.now = 1s;
  at.turn([&](Turn& t) { verifier.advance(t); });
  EXPECT_TRUE(at.sent.empty());
  EXPECT_EQ(at.timers, (std::vector<Time>{2s}));  // a quarter of what sites wait
  for (at.now = 2s; at.now <= 20s; at.now += 2s) {
    at.turn([&](Turn& t) { verifier.advance(t); });
    ASSERT_EQ(at.sent.size(), 1u);
    EXPECT_EQ(at.sent[0].to, 1u);
    EXPECT_EQ(from_wire<StillChecking>(at.sent[0].message.head.view())->batch, 7u);
  }
  at.turn([&](Turn& t) { verifier.verdicts(std::vector<float>{2}, t); });
  at.now = 40s;
  at.turn([&](Turn& t) { verifier.advance(t); });
  EXPECT_TRUE(at.sent.empty());
}

TEST(Verifier, RefusesWhatIsNoObjectOfTheStream) {
  const Machine node;
  Verifier verifier(node, 1, 16, 8s);
  const auto take = [&](std::uint32_t length, std::uint64_t seq, std::size_t bytes) {
    const Check check{.batch = 7, .length = length, .stride = 64, .items = {{3, seq, 0}}};
    return verifier.take(1, check, Payload(share(Buffer(bytes))), 0s);
  };
  EXPECT_FALSE(take(15, 1, 64));
  EXPECT_FALSE(take(16, 0, 64));
  EXPECT_FALSE(take(16, 1, 63));
  EXPECT_FALSE(take(17, 1, 64));
  EXPECT_FALSE(verifier.has_work());
  EXPECT_TRUE(take(16, 1, 64));
  EXPECT_TRUE(take(16, 1, 64));
  EXPECT_FALSE(take(16, 1, 64));  // two at a time
}

}  // namespace
}  // namespace longhaul::focus
