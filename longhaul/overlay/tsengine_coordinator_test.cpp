// The coordinator against toy agents that end transfers in any order, give some up, and hear late
// of others: what it decides keeps the invariants below in every schedule.
//
// Invariants (in this file unless another is named):
//   TS_1   each worker receives each bucket once
//   TS_2   each contribution counts once; sums that meet are disjoint
//   TS_3   weights: tsengine_attempt_test.cpp
//   TS_4   one transfer in and one out
//   TS_5   nothing starts after the commit; other rounds change nothing
//   TS_6   no node is paired with itself; the server sends no contribution and receives no mean
//   TS_7   exploring
//   TS_8   every round ends: 2 to 9 workers, thousands of schedules, failed transfers; the same
//          with losses at every event, and the mean is that of hub to rounding: agreed_test.cpp
//   TS_9   a recording gives equal bits, also of a run over sockets: tests/replay_test.cpp
//   TS_10  throughput
//   -      announcements, pieces, orders, answers, fences and deadlines: tsengine_attempt_test.cpp;
//          the same as messages: tsengine_agent_messages_test.cpp
#include "longhaul/overlay/tsengine_coordinator.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>

#include <gtest/gtest.h>

#include "longhaul/base/testing/archived.h"
#include "longhaul/base/testing/effort.h"

namespace longhaul::overlay::tsengine {
namespace {

struct Plan {
  std::uint32_t workers = 4;
  bool server_apart = false;
  std::uint32_t buckets = 3;
  Round rounds = 2;  // that overlap
  bool give_up = false;
  std::uint64_t seed = 1;
};

class Toys {
 public:
  explicit Toys(const Plan& plan)
      : plan_(plan), coordinator_({}, plan.seed), random_(plan.seed, {Purpose::test, 9}) {
    team_.server = plan.server_apart ? plan.workers : 0;
    team_.self = *team_.server;
    for (Rank rank = 0; rank < plan.workers; ++rank) team_.members.insert(rank);
    coordinator_.new_team(team_);
  }

  // "" or what went wrong.
  std::string run() {
    for (Round round = 0; round < plan_.rounds; ++round)
      for (const Rank rank : team_.members)
        if (rank != server()) later([=, this] { share(round, rank); });
    for (int steps = 0; !events_.empty() && wrong_.empty(); ++steps) {
      if (steps > 200'000) return "does not end";
      const std::size_t which = random_.below(events_.size());
      const auto event = std::move(events_[which]);
      events_.erase(events_.begin() + std::ptrdiff_t(which));
      event();
    }
    if (!wrong_.empty()) return wrong_;
    const std::size_t receivers = plan_.workers - (plan_.server_apart ? 0 : 1);
    for (Round round = 0; round < plan_.rounds; ++round)
      if (coordinator_.runs({round, 0, 0}))
        return "TS_8: round " + std::to_string(round) + " hangs";
    const std::size_t all = plan_.rounds * plan_.buckets * receivers;
    if (had_.size() != all) return "TS_1: somebody lacks a bucket";
    if (!plan_.give_up && (parts_ != all || means_ != all)) return "TS_1: transfers too many";
    return "";
  }

 private:
  struct Live {
    VectorId key;
    std::uint32_t bucket;
    bool mean;
    Rank from, to;
    bool out = true, in = true;  // hold their slots
    bool taken = false, never = false, given_up = false, said = false;
  };
  using Spot = std::tuple<Round, std::uint32_t, Rank>;

  Rank server() const { return *team_.server; }
  void later(std::function<void()> event) { events_.push_back(std::move(event)); }
  void must(bool good, const std::string& what) {
    if (!good && wrong_.empty()) wrong_ = what;
  }
  std::set<Rank>& sum(const Live& live, Rank rank) {
    auto& set = sums_[{live.key.round, live.bucket, rank}];
    if (set.empty() && rank != server()) set = {rank};
    return set;
  }

  void share(Round round, Rank rank) {
    const VectorId key{round, 0, 0};
    coordinator_.open(key, std::vector<std::uint64_t>(plan_.buckets, 4000));
    Orders orders;
    coordinator_.ready(key, rank, orders);
    obey(orders);
  }

  void say(const Live& live, Rank from, const auto& one) {
    Orders orders;
    const Status heard = coordinator_.hear(live.key, from, one, orders);
    must(bool(heard), heard ? "" : heard.error().what);
    obey(orders);
  }

  void obey(const Orders& orders) {
    for (const Order& order : orders.list) {
      const auto take = [&](const auto& one) -> Status { return obey(order, one), Ok{}; };
      must(bool(read(order.note, take)), "an order that cannot be read");
    }
  }
  template <class M>
  void obey(const Order&, const M&) {
    must(false, "what a coordinator does not say");
  }
  void obey(const Order& order, const Merge& merge) {
    must(!committed_.contains({order.about.round, merge.bucket}), "TS_5: a part after the commit");
    must(order.to != server(), "TS_6: the server sends a part");
    ++parts_;
    begin(merge.xfer, {order.about, merge.bucket, false, order.to, merge.to});
    later([=, this, x = merge.xfer] { end_part(x); });
    if (plan_.give_up && random_.below(4) == 0)
      later([=, this, x = merge.xfer] { give_up_part(x); });
  }
  void obey(const Order& order, const Assign& assign) {
    if (assign.xfer == 0) {
      const bool once = let_go_.insert({order.about.round, assign.bucket, order.to}).second;
      return must(once, "let go twice");
    }
    must(assign.to != server(), "TS_6: the server is sent a mean");
    must(!told_.contains({order.about.round, assign.bucket, assign.to}), "TS_1: a second time");
    ++means_;
    begin(assign.xfer, {order.about, assign.bucket, true, order.to, assign.to});
    later([=, this, x = assign.xfer] { end_mean(x); });
    if (plan_.give_up && random_.below(4) == 0)
      later([=, this, x = assign.xfer] { give_up_mean(x); });
  }
  void obey(const Order&, const Fence& fence) {
    later([=, this, x = fence.xfer] {
      Live& live = live_.at(x);
      if (live.taken) return say(live, live.to, Fenced{live.bucket, x, true});
      live.never = true;
      live.out = live.in = false;
      say(live, live.to, Fenced{live.bucket, x, false});
    });
  }

  void begin(Xfer xfer, const Live& fresh) {
    must(fresh.from != fresh.to, "TS_6: to itself");
    for (const auto& [x, live] : live_) {
      must(!live.out || live.from != fresh.from, "TS_4: two transfers out");
      must(!live.in || live.to != fresh.to, "TS_4: two transfers in");
    }
    must(live_.emplace(xfer, fresh).second, "a number twice");
  }

  void end_part(Xfer xfer) {
    Live& live = live_.at(xfer);
    if (live.never) return;
    live.taken = true;
    live.out = live.in = false;
    std::set<Rank>& into = sum(live, live.to);
    for (const Rank rank : sum(live, live.from))
      must(into.insert(rank).second, "TS_2: counted twice");
    say(live, live.to, Ready{live.bucket, xfer, true, 1000});
    const std::size_t others = team_.members.size() - (plan_.server_apart ? 0 : 1);
    if (live.to != server() || into.size() != others) return;
    committed_.insert({live.key.round, live.bucket});
    Orders orders;
    coordinator_.committed(live.key, live.bucket, orders);
    obey(orders);
  }
  void give_up_part(Xfer xfer) {
    Live& live = live_.at(xfer);
    if (had_.contains({live.key.round, live.bucket, live.from})) return;  // it knows
    say(live, live.from, Ready{live.bucket, xfer, false, 0});
  }
  void end_mean(Xfer xfer) {
    Live& live = live_.at(xfer);
    const Spot spot{live.key.round, live.bucket, live.to};
    if (had_.insert(spot).second)
      later([=, this] {
        Live& live = live_.at(xfer);
        for (auto& [x, other] : live_)
          if (other.mean && other.to == live.to && other.key == live.key &&
              other.bucket == live.bucket)
            other.in = false;
        told_.insert(spot);
        say(live, live.to, Offer{live.bucket, xfer, Offer::After::received, 0});
      });
    later([=, this] {
      Live& live = live_.at(xfer);
      if (live.given_up) return;
      live.out = live.in = false, live.said = true;
      say(live, live.from, Offer{live.bucket, xfer, Offer::After::served, 1000});
    });
  }
  void give_up_mean(Xfer xfer) {
    Live& live = live_.at(xfer);
    if (live.said) return;
    live.given_up = true;
    live.out = live.in = false;
    say(live, live.from, Offer{live.bucket, xfer, Offer::After::failed, 0});
  }

  const Plan plan_;
  GroupMembers team_;
  Coordinator coordinator_;
  Random random_;
  std::vector<std::function<void()>> events_;
  std::map<Xfer, Live> live_;
  std::map<Spot, std::set<Rank>> sums_;
  std::set<Spot> had_, told_, let_go_;
  std::set<std::pair<Round, std::uint32_t>> committed_;
  std::size_t parts_ = 0, means_ = 0;
  std::string wrong_;
};

std::uint64_t seeds(std::uint32_t workers) {
  if (!longhaul::testing::kGate) return 60;
  return workers == 9 ? 1 : 6;
}

void expect_good(bool give_up) {
  // In the gate mostly of few: in time nine are as much as all others.
  for (const std::uint32_t workers : {2u, 3u, 5u, 9u})
    for (const bool apart : {false, true})
      for (const std::uint32_t buckets : {1u, 3u})
        for (std::uint64_t seed = 0; seed < seeds(workers); ++seed)
          ASSERT_EQ(Toys({workers, apart, buckets, 2, give_up, seed}).run(), "")
              << workers << (apart ? " and a server, " : ", ") << buckets << " buckets, seed "
              << seed;
}

TEST(TsEngineCoordinator, TS_1_to_6_InWhateverOrderTransfersEnd) { expect_good(false); }

TEST(TsEngineCoordinator, TS_8_EndsWhateverIsGivenUp) { expect_good(true); }

struct Orderly : ::testing::Test {
  Orderly() {
    team.server = 0;
    team.members = {0, 1, 2};
    coordinator.new_team(team);
    coordinator.open(key, {1'000'000});
  }
  // The one order there is, as that message.
  template <class M>
  M last() {
    M found;
    EXPECT_EQ(orders.list.size(), 1u);
    if (!orders.list.empty()) {
      const AttemptMessage& note = orders.list.back().note;
      EXPECT_EQ(note.kind, M::kKind);
      EXPECT_TRUE(read(note, [&](const auto& one) -> Status {
        if constexpr (std::is_same_v<std::decay_t<decltype(one)>, M>) found = one;
        return Ok{};
      }));
    }
    orders.list.clear();
    return found;
  }
  GroupMembers team;
  const VectorId key{4, 0, 0};
  Coordinator coordinator{{}, 1};
  Orders orders;
};

TEST_F(Orderly, DeadlinesAreFourTimesWhatALinkShouldTakeAndDoubleWhenMissed) {
  coordinator.ready(key, 1, orders);
  Merge merge = last<Merge>();
  EXPECT_EQ(Time(merge.allowed), std::chrono::seconds(60)) << "an unknown link";
  ASSERT_TRUE(coordinator.hear(key, 0, Ready{0, merge.xfer, true, 10'000'000'000}, orders));
  EXPECT_EQ(coordinator.rate(key, 1, 0), 1e5);
  coordinator.open({5, 0, 0}, {1'000'000});
  coordinator.ready({5, 0, 0}, 1, orders);
  merge = last<Merge>();
  EXPECT_EQ(Time(merge.allowed), std::chrono::seconds(40));
  ASSERT_TRUE(coordinator.hear({5, 0, 0}, 1, Ready{0, merge.xfer, false, 0}, orders));
  const Fence fence = last<Fence>();
  EXPECT_EQ(coordinator.fenced({5, 0, 0}), std::vector<Rank>{0});
  ASSERT_TRUE(coordinator.hear({5, 0, 0}, 0, Fenced{0, fence.xfer, false}, orders));
  merge = last<Merge>();
  EXPECT_EQ(Time(merge.allowed), std::chrono::seconds(120));
  EXPECT_GT(merge.xfer, fence.xfer) << "a number is given once";
}

// Rates are those of a direction: 3 has sent to 2 and not the other way about.
TEST_F(Orderly, OfTwoWhoAreReadyTheOneWithTheKnownLinkSends) {
  team.members.insert(3);
  coordinator.new_team(team);
  coordinator.open(key, {1'000'000});
  const VectorId next{5, 0, 0};
  coordinator.ready(key, 1, orders);
  EXPECT_EQ(last<Merge>().to, 0u);
  coordinator.ready(key, 2, orders);
  EXPECT_TRUE(orders.list.empty()) << "the server takes what 1 sends";
  coordinator.ready(key, 3, orders);
  EXPECT_EQ(orders.list.at(0).to, 3u);
  ASSERT_TRUE(coordinator.hear(key, 2, Ready{0, last<Merge>().xfer, true, 1000}, orders));
  EXPECT_TRUE(coordinator.rate(key, 3, 2));
  ASSERT_FALSE(coordinator.rate(key, 2, 3));
  coordinator.open(next, {1'000'000});
  coordinator.ready(next, 3, orders);
  coordinator.ready(next, 2, orders);
  ASSERT_EQ(orders.list.size(), 1u) << "the server is still busy";
  EXPECT_EQ(orders.list[0].to, 3u) << "sends";
  EXPECT_EQ(last<Merge>().to, 2u);
}

TEST_F(Orderly, TS_5_WhatCannotBeIsRefused) {
  coordinator.ready(key, 1, orders);
  const Merge part = last<Merge>();
  const Ready taken{0, part.xfer, true, 1}, other{1, part.xfer, true, 1};
  EXPECT_FALSE(coordinator.hear(key, 2, taken, orders)) << "not its receiver";
  EXPECT_FALSE(coordinator.hear({5, 0, 0}, 0, taken, orders)) << "of another round";
  EXPECT_FALSE(coordinator.hear(key, 0, other, orders)) << "of no bucket";
  EXPECT_FALSE(coordinator.hear(key, 2, Ready{0, part.xfer, false, 0}, orders)) << "not its sender";
  EXPECT_FALSE(coordinator.hear(key, 0, Fenced{0, part.xfer, false}, orders)) << "not asked";
  EXPECT_FALSE(coordinator.hear(key, 1, Offer{0, part.xfer}, orders)) << "before the commit";
  ASSERT_TRUE(coordinator.hear(key, 0, taken, orders));
  EXPECT_FALSE(coordinator.hear(key, 0, taken, orders)) << "for the second time";
  coordinator.committed(key, 0, orders);
  const Assign mean = last<Assign>();
  EXPECT_FALSE(coordinator.hear(key, 1, Offer{0, mean.xfer, Offer::After::served}, orders));
  EXPECT_FALSE(coordinator.hear(key, 1, Offer{0, mean.xfer + 1}, orders)) << "a number to come";
  EXPECT_TRUE(orders.list.empty());
}

TEST_F(Orderly, ANewCoordinatorKnowsNothing) {
  coordinator.ready(key, 1, orders);
  ASSERT_TRUE(coordinator.hear(key, 0, Ready{0, last<Merge>().xfer, true, 1000}, orders));
  coordinator.new_team(team);
  EXPECT_TRUE(coordinator.rate(key, 1, 0)) << "the same one";
  EXPECT_FALSE(coordinator.runs(key));
  team.server = 1;
  coordinator.new_team(team);
  EXPECT_FALSE(coordinator.rate(key, 1, 0));
}

TEST_F(Orderly, SavedAndLoadedItDecidesTheSame) {
  coordinator.ready(key, 1, orders);
  ASSERT_TRUE(coordinator.hear(key, 0, Ready{0, last<Merge>().xfer, true, 1000}, orders));
  coordinator.ready(key, 2, orders);
  Coordinator loaded({}, 1);
  ASSERT_TRUE(longhaul::testing::copy_state(coordinator, loaded));
  EXPECT_EQ(loaded.rate(key, 1, 0), coordinator.rate(key, 1, 0));
  EXPECT_EQ(longhaul::testing::saved(loaded), longhaul::testing::saved(coordinator));
  const Xfer xfer = last<Merge>().xfer;
  Orders mine, its;
  loaded.open({5, 0, 0}, {10});
  loaded.ready({5, 0, 0}, 1, its);
  EXPECT_TRUE(its.list.empty()) << "the server is busy";
  EXPECT_TRUE(loaded.expects(key, 0, xfer, 2));
}

using Ranks = std::vector<Rank>;

TEST(TsEngineChoice, TS_7_GreedIsTheShareOfTheKnown) {
  constexpr int kDraws = 10'000;
  const Ranks candidates = {1, 2, 3, 4, 5, 6};
  const Rate half = [](Rank, Rank to) {
    return to <= 3 ? std::optional(double(to)) : std::nullopt;
  };
  for (const double greed : {0.9, 0.3}) {
    int greedy = 0;
    for (int i = 0; i < kDraws; ++i) {
      Random random(7, {Purpose::test, std::uint64_t(i)});
      const Rank to = choose_receiver(0, candidates, half, greed, random);
      EXPECT_GE(to, 3u) << "neither the fastest nor unknown";
      greedy += to == 3;
    }
    const double p = std::min(0.5, greed);
    EXPECT_NEAR(greedy, kDraws * p, 3 * std::sqrt(kDraws * p * (1 - p))) << greed;
  }
}

TEST(TsEngineChoice, TS_7_WithAllKnownAndLittleGreedEveryoneIsChosen) {
  const Ranks candidates = {1, 2, 3};
  const Rate equal = [](Rank, Rank) { return std::optional(1.0); };
  std::map<Rank, int> chosen;
  for (int i = 0; i < 3000; ++i) {
    Random random(7, {Purpose::test, std::uint64_t(i)});
    ++chosen[choose_receiver(0, candidates, equal, 0.5, random)];
  }
  EXPECT_NEAR(chosen[1], 2000, 120) << "the lowest of equal ones";
  EXPECT_NEAR(chosen[2], 500, 80);
  EXPECT_NEAR(chosen[3], 500, 80);
}

const Rate kUnknown = [](Rank, Rank) -> std::optional<double> { return std::nullopt; };

TEST(TsEngineGather, FirstReadyFirstPaired) {
  Gather gather(9);
  Slots slots;
  for (const Rank rank : {4u, 2u, 6u}) gather.ready(rank);
  EXPECT_EQ(gather.match(slots, kUnknown), (Pair{4, 9})) << "the server receives";
  EXPECT_EQ(gather.match(slots, kUnknown), (Pair{6, 2})) << "of equal ones the later sends";
  EXPECT_FALSE(gather.match(slots, kUnknown));
  gather.ready(2), gather.ready(9);
  EXPECT_EQ(gather.match(slots, kUnknown), (Pair{2, 9}));
  gather.ready(1), gather.ready(3);
  const Rate known = [](Rank from, Rank) { return from == 1 ? std::optional(5.0) : std::nullopt; };
  EXPECT_EQ(gather.match(slots, known), (Pair{1, 3})) << "over the faster link";
}

TEST(TsEngineGather, TS_4_WhoIsBusyIsPassedOver) {
  Gather gather(9);
  Slots slots;
  slots.take(7, 9);  // of another bucket
  gather.ready(1);
  EXPECT_FALSE(gather.match(slots, kUnknown));
  gather.ready(2);
  EXPECT_EQ(gather.match(slots, kUnknown), (Pair{2, 1}));
  gather.ready(7);
  EXPECT_FALSE(gather.match(slots, kUnknown));
  slots.free_out(7), slots.free_in(9);
  EXPECT_EQ(gather.match(slots, kUnknown), (Pair{7, 9}));
}

// Who has a bucket, and the slots that all buckets share.

TEST(TsEngineSpread, TS_1_ABucketIsReceivedOnce) {
  Spread spread(0, {1, 2});
  Slots slots;
  EXPECT_EQ(spread.candidates(slots), (Ranks{1, 2}));
  spread.assigned(1);
  EXPECT_EQ(spread.candidates(slots), (Ranks{2}));
  spread.failed(1);
  EXPECT_EQ(spread.candidates(slots), (Ranks{1, 2}));
  spread.assigned(1);
  spread.served(1);
  EXPECT_TRUE(spread.received(1)) << "its sender said it first";
  EXPECT_FALSE(spread.received(1));
  EXPECT_FALSE(spread.received(0)) << "the server had it";
  EXPECT_FALSE(spread.received(7));
  spread.failed(1);
  EXPECT_EQ(spread.candidates(slots), (Ranks{2})) << "has it whatever else is said";
  EXPECT_FALSE(spread.all_have());
  EXPECT_TRUE(spread.received(2));
  EXPECT_TRUE(spread.all_have());
  for (const Rank rank : {0u, 1u, 2u}) {
    EXPECT_FALSE(spread.over());
    spread.let_go(rank);
  }
  EXPECT_TRUE(spread.over());
  EXPECT_DEATH(spread.let_go(1), "has") << "each holder once";
}

TEST(TsEngineSlots, TS_6_NobodyIsPairedWithItself) {
  Slots slots;
  EXPECT_DEATH(slots.take(1, 1), "from != to");
  slots.take(1, 2);
  EXPECT_DEATH(slots.take(1, 3), "free");
}

using namespace std::chrono_literals;

TEST(TsEngineThroughput, TS_10_HalfTheRateOfALinkIsHalfTheValue) {
  Throughput learned(0.5, 5);
  learned.learn(0, 1, 1'000'000, 100ms, 0);
  learned.learn(0, 2, 1'000'000, 200ms, 0);
  EXPECT_DOUBLE_EQ(*learned.of(0, 1, 0), 1e7);
  EXPECT_DOUBLE_EQ(*learned.of(0, 2, 0), 0.5e7);
  EXPECT_FALSE(learned.of(1, 0, 0)) << "the way back is another link";
  learned.learn(0, 1, 1'000'000, 200ms, 1);
  EXPECT_DOUBLE_EQ(*learned.of(0, 1, 1), 0.75e7) << "half of each";
  EXPECT_EQ(learned.size(), 2u);
}

TEST(TsEngineThroughput, WhatIsOldIsForgottenAndFailuresCountAsNothing) {
  Throughput learned(0.5, 5);
  learned.learn(0, 1, 1000, 1s, 3);
  EXPECT_TRUE(learned.of(0, 1, 8));
  EXPECT_FALSE(learned.of(0, 1, 9));
  learned.failed(0, 1, 4);
  EXPECT_EQ(learned.of(0, 1, 9), 0.0);
  learned.forget(9);
  EXPECT_EQ(learned.size(), 1u);
  learned.forget(10);
  EXPECT_EQ(learned.size(), 0u);
}

}  // namespace

}  // namespace longhaul::overlay::tsengine
