#include "longhaul/focus/queries.h"

#include <gtest/gtest.h>

namespace longhaul::focus {
namespace {

using namespace std::chrono_literals;

// A querier of rank 0 among `count` sites, without a host.
struct Asking {
  explicit Asking(Rank count) : querier(node, 10s, 100) {
    Members members;
    for (Rank rank = 0; rank < count; ++rank) {
      members.push_back({"site" + std::to_string(rank)});
      view.live.insert(rank);
    }
    place.members = std::make_shared<const Members>(members);
    place.layout = Layout::flat(1);
  }
  // One turn; the answers of it are added to `answers`.
  void turn(auto&& enter) {
    TurnContext context{.now = now, .place = &place, .view = &view, .credits = &credits};
    Turn one(context);
    enter(one);
    for (const Action& action : context.actions) {
      if (const auto* reply = std::get_if<Reply>(&action)) {
        answers.push_back(*from_wire<Answer>(*reply->answer));
        EXPECT_FALSE(ended);
        ended = reply->last;
      }
      if (const auto* send = std::get_if<Send>(&action)) sent[send->message.kind]++;
    }
  }
  void ask(const Wanted& wanted) {
    turn([&](Turn& t) { querier.on_requested(1, wanted, t); });
  }

  Place place;
  View view;
  Credits credits;
  Time now{0};
  const Machine node;
  Querier querier;
  std::vector<Answer> answers;
  std::map<std::uint16_t, int> sent;  // by kind
  bool ended = false;
};

constexpr Interval kWindow{0, 1'000'000};
constexpr Rank kSites = 3;
constexpr std::uint64_t kResults = 4;

// tests/focus_test.cpp, invariant 8: for any order of messages, with duplicates.
TEST(Querier, TheUnionForAnyOrderWithDuplicates) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    Asking asking(kSites);
    asking.ask({.cls = 3, .window = kWindow});
    EXPECT_EQ(asking.sent[Query::kKind], int(kSites));
    std::vector<std::pair<Rank, std::uint64_t>> order;  // site, result; kResults: its end
    for (int twice = 0; twice < 2; ++twice)
      for (Rank site = 0; site < kSites; ++site)
        for (std::uint64_t number = 0; number <= kResults; ++number)
          order.emplace_back(site, number);
    Random(seed, {}).shuffle(std::span(order));
    for (const auto& one : order)
      asking.turn([&](Turn& t) {
        const auto& [site, number] = one;
        if (number == kResults) {
          EXPECT_TRUE(asking.querier.take(site, End{.results = kResults, .gaps = {}}, t));
        } else {
          Found found{.number = number, .clusters = {}};
          found.clusters.push_back({number, 1, {kWindow}});
          EXPECT_TRUE(asking.querier.take(site, found, t));
        }
      });
    ASSERT_TRUE(asking.ended);
    std::set<std::pair<Rank, std::uint64_t>> all;
    for (const Answer& answer : asking.answers)
      for (const FoundCluster& cluster : answer.clusters)
        EXPECT_TRUE(all.emplace(answer.site, cluster.cluster).second);
    EXPECT_EQ(all.size(), kSites * kResults);
    EXPECT_TRUE(asking.answers.back().missing.empty());
    EXPECT_TRUE(asking.querier.idle());
  }
}

TEST(Querier, ASilentSiteIsMissingAfterTheTimeoutAndTheOthersAnswer) {
  Asking asking(2);
  asking.ask({.cls = 3, .window = kWindow});
  asking.now = 4s;
  asking.turn([&](Turn& t) { EXPECT_TRUE(asking.querier.take(0, End{.asof = 7, .gaps = {}}, t)); });
  asking.now = 9s;
  asking.turn([&](Turn& t) { asking.querier.on_timer(t); });
  EXPECT_FALSE(asking.ended);
  EXPECT_EQ(asking.querier.waiting_for(), "query 0: ranks 1");
  asking.now = 10s;
  asking.turn([&](Turn& t) { asking.querier.on_timer(t); });
  ASSERT_TRUE(asking.ended);
  EXPECT_EQ(asking.answers.back().ends.at(0).asof, 7u);
  EXPECT_EQ(asking.answers.back().missing.at(0).site, 1u);
}

TEST(Querier, TheLimitEndsAQueryAndCancelsIt) {
  Asking asking(2);
  asking.ask({.cls = 3, .window = kWindow, .limit = 2});
  Found found{.clusters = {}};
  for (std::uint64_t cluster = 0; cluster < 3; ++cluster)
    found.clusters.push_back({cluster, 1, {kWindow}});
  asking.turn([&](Turn& t) { EXPECT_TRUE(asking.querier.take(1, found, t)); });
  ASSERT_TRUE(asking.ended);
  EXPECT_EQ(asking.answers.front().clusters.size(), 2u);
  EXPECT_TRUE(asking.answers.back().limited);
  EXPECT_EQ(asking.sent[Cancel::kKind], 2);
  found.number = 1;  // what was on its way is ignored
  asking.turn([&](Turn& t) { EXPECT_TRUE(asking.querier.take(1, found, t)); });
}

TEST(Querier, WhatNobodyAskedOrRunsFarAheadIsRefused) {
  Asking asking(2);
  asking.turn([&](Turn& t) { EXPECT_FALSE(asking.querier.take(1, Found{.clusters = {}}, t)); });
  asking.ask({.cls = 3, .window = kWindow});
  asking.turn([&](Turn& t) {
    EXPECT_FALSE(asking.querier.take(1, Found{.number = 1 << 20, .clusters = {}}, t));
  });
}

// A second answer to a query that came twice: the site has more clusters by then.
TEST(Querier, WhatComesAfterAnEndIsLate) {
  Asking asking(2);
  asking.ask({.cls = 3, .window = kWindow});
  asking.turn([&](Turn& t) {
    EXPECT_TRUE(asking.querier.take(1, End{.results = 0, .asof = 7, .gaps = {}}, t));
    Found found{.clusters = {}};
    found.clusters.push_back({5, 1, {kWindow}});
    EXPECT_TRUE(asking.querier.take(1, found, t));
    EXPECT_TRUE(asking.querier.take(1, End{.results = 1, .asof = 9, .gaps = {}}, t));
  });
  EXPECT_TRUE(asking.answers.empty());
  asking.turn([&](Turn& t) { EXPECT_TRUE(asking.querier.take(0, End{.gaps = {}}, t)); });
  ASSERT_TRUE(asking.ended);
  EXPECT_EQ(asking.answers.back().ends.at(1).asof, 7u);
}

TEST(Querier, AnEndWithoutItsResultsIsRefusedAndDoesNotKeepTheQuery) {
  Asking asking(2);
  asking.ask({.cls = 3, .window = kWindow});
  asking.turn([&](Turn& t) {
    EXPECT_TRUE(asking.querier.take(0, End{.gaps = {}}, t));
    EXPECT_FALSE(asking.querier.take(1, End{.results = ~std::uint64_t{0}, .gaps = {}}, t));
    EXPECT_TRUE(asking.querier.take(1, End{.results = 3, .gaps = {}}, t));  // they never come
  });
  EXPECT_FALSE(asking.ended);
  asking.now = 10s;
  asking.turn([&](Turn& t) { asking.querier.on_timer(t); });
  ASSERT_TRUE(asking.ended);
  EXPECT_EQ(asking.answers.back().missing.size(), 1u);
}

// It may be back: what it does for nothing it can leave.
TEST(Querier, ASiteThatIsMissingByTimeIsToldToStop) {
  Asking asking(2);
  asking.ask({.cls = 3, .window = kWindow});
  asking.turn([&](Turn& t) { EXPECT_TRUE(asking.querier.take(0, End{.gaps = {}}, t)); });
  asking.now = 10s;
  asking.turn([&](Turn& t) { asking.querier.on_timer(t); });
  ASSERT_TRUE(asking.ended);
  EXPECT_EQ(asking.sent[Cancel::kKind], 1);
  asking.turn([&](Turn& t) {  // late, and far beyond what was heard of it
    EXPECT_TRUE(asking.querier.take(1, End{.results = 5000, .gaps = {}}, t));
  });
}

// A cluster counts when its last part is here, so that no limit cuts it.
TEST(Querier, ALimitCountsWholeClusters) {
  Asking asking(1);
  asking.ask({.cls = 3, .window = kWindow, .limit = 1});
  Found part{.clusters = {}}, last{.number = 1, .clusters = {}};
  part.clusters.push_back({4, 0, {kWindow}});
  last.clusters = {{4, 9, {kWindow}}, {5, 0, {kWindow}}, {6, 1, {kWindow}}};
  asking.turn([&](Turn& t) { EXPECT_TRUE(asking.querier.take(0, part, t)); });
  EXPECT_FALSE(asking.ended);
  asking.turn([&](Turn& t) { EXPECT_TRUE(asking.querier.take(0, last, t)); });
  ASSERT_TRUE(asking.ended);
  ASSERT_EQ(asking.answers.size(), 3u);
  EXPECT_EQ(asking.answers[0].clusters.size(), 1u);
  ASSERT_EQ(asking.answers[1].clusters.size(), 1u);
  EXPECT_EQ(asking.answers[1].clusters[0].count, 9u);
}

TEST(Querier, WhoFollowsIsToldWhenASiteIsLostAndEndsWhenTheNodeDoes) {
  Asking asking(3);
  asking.ask({.cls = 3, .window = kWindow, .follow = true});
  for (Rank rank = 0; rank < 3; ++rank)
    asking.turn([&](Turn& t) { EXPECT_TRUE(asking.querier.take(rank, End{.gaps = {}}, t)); });
  ASSERT_EQ(asking.answers.size(), 1u);
  EXPECT_EQ(asking.answers[0].kind, Answer::Kind::caught_up);
  asking.view.live = {0, 2};
  asking.turn([&](Turn& t) { asking.querier.on_view(t); });
  asking.turn([&](Turn& t) { asking.querier.on_view(t); });  // once
  ASSERT_EQ(asking.answers.size(), 2u);
  EXPECT_EQ(asking.answers[1].missing.at(0).site, 1u);
  Found found{.clusters = {}};
  found.clusters.push_back({5, 1, {kWindow}});
  asking.turn([&](Turn& t) { EXPECT_TRUE(asking.querier.take(2, found, t)); });
  EXPECT_EQ(asking.answers.size(), 3u);
  asking.turn([&](Turn& t) { asking.querier.stop_following(t); });
  ASSERT_TRUE(asking.ended);
  EXPECT_EQ(asking.answers.back().kind, Answer::Kind::ended);
  EXPECT_EQ(asking.sent[Cancel::kKind], 2);
  EXPECT_TRUE(asking.querier.idle());
}

TEST(Querier, BadRequestsAndTooManyAreRefusedWithAReason) {
  Asking asking(1);
  asking.ask({.cls = 3, .window = {5, 4}});
  EXPECT_EQ(asking.answers.back().why, "the window ends before it begins");
  asking.ended = false;
  for (std::size_t i = 0; i < Querier::kMostOpen; ++i) asking.ask({.cls = 1, .window = kWindow});
  EXPECT_FALSE(asking.ended);
  asking.ask({.cls = 1, .window = kWindow});
  EXPECT_EQ(asking.answers.back().kind, Answer::Kind::refused);
}

}  // namespace
}  // namespace longhaul::focus
