// The coordinator against toy agents that end transfers in any order, give some up, and hear late
// of others: what it decides keeps the invariants of docs/overlay/tsengine.md in every schedule.
#include "longhaul/overlay/tsengine_coordinator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <set>

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

  template <class M>
  void say(const Live& live, Rank from, const M& one) {
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
  Archive out;
  coordinator.state(out);
  const Buffer bytes = out.take();
  Coordinator loaded({}, 1);
  Archive in(bytes);
  loaded.state(in);
  ASSERT_TRUE(in.finish());
  EXPECT_EQ(loaded.rate(key, 1, 0), coordinator.rate(key, 1, 0));
  Archive again;
  loaded.state(again);
  EXPECT_EQ(again.take(), bytes);
  const Xfer xfer = last<Merge>().xfer;
  Orders mine, its;
  loaded.open({5, 0, 0}, {10});
  loaded.ready({5, 0, 0}, 1, its);
  EXPECT_TRUE(its.list.empty()) << "the server is busy";
  EXPECT_TRUE(loaded.expects(key, 0, xfer, 2));
}

}  // namespace
}  // namespace longhaul::overlay::tsengine
