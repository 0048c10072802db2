// Whole exchanges over a forest that learns its rates: an event of the test's net takes 1 ns, so
// rates are whatever the order of events makes of them, and plans change as often as they can.
#include "longhaul/overlay/replanner.h"

#include <gtest/gtest.h>

#include "longhaul/base/testing/archived.h"
#include "longhaul/base/testing/effort.h"
#include "longhaul/overlay/testing/exchange.h"
#include "longhaul/overlay/testing/places.h"

namespace longhaul::overlay {
namespace {

using longhaul::testing::cases;
using longhaul::testing::kGate;
using longhaul::testing::kStride;
using testing::Exchange;
using testing::ExchangeConfig;

ExchangeConfig learning(std::uint32_t workers, Round rounds = 5) {
  ExchangeConfig c{.kind = "forest", .learned = true};
  c.workers = workers;
  c.length = 24 * workers;
  c.chunk_bytes = 16;
  c.rounds = rounds;
  return c;
}

double plans(Exchange& exchange) {
  const auto& records = exchange.net().records;
  const auto found = records.find("plan");
  return found == records.end() ? 0 : found->second;
}

TEST(Replanner, F24_RoundsGoOnWhilePlansChange) {
  for (std::uint32_t workers = 1; workers <= 8; workers += kStride > 1 ? 3 : 1)
    for (const std::uint32_t nodes : {1u, 2u}) {
      if (kGate && workers == 7 && nodes == 1) continue;
      double seen = 0;
      constexpr std::uint64_t kFirst = kStride > 1 ? 2 : 1, kLast = kStride > 1 ? 3 : 4;
      for (std::uint64_t order = kFirst; order <= kLast; ++order) {
        if (kGate && order % 2 != (workers + nodes) % 2) continue;
        ExchangeConfig c = learning(workers, kGate ? 4 : 9);
        c.nodes = nodes;
        c.order = order;
        c.buffers = order % 2 == 0 ? 5 : 0;
        c.lossy = order % 3 == 0;
        Exchange exchange(c);
        exchange.run();
        ASSERT_EQ(exchange.disagreement(), "") << workers << " workers, order " << order;
        seen += plans(exchange);
      }
      EXPECT_EQ(seen > 0, workers > nodes) << workers << " workers, " << nodes << " a site";
    }
}

TEST(Replanner, F25_AnybodyMayDieAtAnyEventOfAPlan) {
  constexpr std::uint64_t kEvery = (kGate ? 8 : 1) * kStride;
  double seen = 0;
  for (Rank victim = 0; victim < 3; ++victim) {
    bool ended = false;
    for (std::uint64_t at = victim % kStride; !ended; at += kEvery) {
      Exchange exchange(learning(3, kGate ? 3 : 5));
      for (std::uint64_t i = 0; i < at; ++i)
        if (!exchange.step()) ended = true;
      exchange.net().crash(victim);
      exchange.run();
      ASSERT_EQ(exchange.disagreement(), "") << "crash of " << victim << " at " << at;
      seen += plans(exchange);
    }
  }
  EXPECT_GT(seen, 1000. / double(kEvery));
}

TEST(Replanner, F25_TwoMayDie) {
  Random random(3, {});
  for (int sample = 0; sample < 120; sample += kStride) {
    ExchangeConfig c = learning(5, kGate ? 3 : 5);
    c.order = random.bits32();
    const Rank first = Rank(random.below(5)), second = (first + 1 + Rank(random.below(4))) % 5;
    const std::uint64_t at = random.below(kGate ? 1500 : 3000), later = random.below(300);
    Exchange exchange(c);
    for (std::uint64_t i = 0; i < at; ++i) exchange.step();
    exchange.net().crash(first);
    for (std::uint64_t i = 0; i < later; ++i) exchange.step();
    exchange.net().crash(second);
    exchange.run();
    ASSERT_EQ(exchange.disagreement(), "")
        << "order " << c.order << ": " << first << " at " << at << ", " << second << " later";
  }
}

TEST(Replanner, F26_SavingAndLoadingAfterEveryEventEqualsGoingOn) {
  for (std::uint64_t order = 1; order <= 2; order += kStride) {
    ExchangeConfig c = learning(4, kGate ? 4 : 6);
    c.order = order;
    Exchange plain(c), saved(c);
    for (std::uint64_t events = 0;; ++events) {
      if (events == (kGate ? 1200 : 2500)) plain.net().crash(0), saved.net().crash(0);
      const bool more = plain.step();
      ASSERT_EQ(saved.step(), more);
      if (!more) break;
      if (events % kStride != 0) continue;
      for (Rank rank = 0; rank < c.workers; ++rank) saved.net().save_and_load(rank);
    }
    ASSERT_EQ(saved.disagreement(), "");
    EXPECT_EQ(saved.net().messages(), plain.net().messages());
    EXPECT_GT(plans(plain), 0);
    EXPECT_EQ(plans(saved), plans(plain));
    for (Round round = 0; round < c.rounds; ++round)
      EXPECT_EQ(saved.at(1).outcomes()[round].values, plain.at(1).outcomes()[round].values);
  }
}

// The planner of four sites, told what the others have measured: the pair from 2 to 3 is thin.
struct Planner {
  void enter(Epoch epoch) {
    GroupMembers team = testing::team_of(4);
    team.epoch = epoch;
    replanner.new_team(team);
    replanner.on_ready(grid, output);
    forest::NewPlan first = forest::to_message(*replanner.agreement().first());
    first.version = 1;
    for (const Rank rank : {1u, 2u, 3u}) tell(rank, forest::PlanAck{1, digest_of(first)});
  }
  void tell(Rank from, const auto& message) {
    const Status taken = replanner.take(from, forest::write(message), output);
    EXPECT_TRUE(taken) << taken.error().what;
  }
  void pass(Round round) {
    replanner.on_contributed(round, std::chrono::seconds(2 * round));
    replanner.on_mean_ready(round, grid, std::chrono::seconds(2 * round + 1), output);
  }
  void report(Rank rank, Round round) {
    forest::RateReport report{round, {}, 0, 0, 1};
    for (Rank to = 0; to < 4; ++to)
      if (to != rank) report.pairs.push_back({to, rank == 2 && to == 3 ? 1e5 : 1e6, 0});
    tell(rank, report);
  }
  std::uint32_t version() const { return replanner.agreement().version(); }

  const Partition grid{4'000'000, 1, 10'000};
  forest::Replanner replanner{{.learns = true, .planner = {}}, nullptr, {0, 1, 2, 3}};
  TopologyOutput output;
};

TEST(Replanner, F21_ANewTeamPlansByTheSameRatesAgain) {
  Planner planner;
  for (const Epoch epoch : {1u, 2u}) {
    planner.enter(epoch);
    EXPECT_EQ(planner.version(), 1u);
    planner.pass(4);
    for (const Rank rank : {1u, 2u, 3u}) planner.report(rank, 4);
    EXPECT_EQ(planner.version(), 2u) << "epoch " << epoch;
  }
}

// Loaded when two of three others have told, it waits for the third.
TEST(Replanner, F26_SavedAndLoadedBetweenTwoReportsItPlansTheSame) {
  Planner plain, loaded;
  plain.enter(1);
  plain.pass(4);
  for (const Rank rank : {1u, 2u}) plain.report(rank, 4);
  ASSERT_TRUE(longhaul::testing::copy_state(plain.replanner, loaded.replanner));
  EXPECT_EQ(loaded.version(), 1u);
  for (Planner* one : {&plain, &loaded}) {
    one->report(3, 4);
    EXPECT_EQ(one->version(), 2u);
    one->report(1, 5);
    EXPECT_FALSE(one->replanner.take(1, forest::write(forest::RateReport{5, {}}), one->output));
  }
  EXPECT_EQ(longhaul::testing::saved(loaded.replanner), longhaul::testing::saved(plain.replanner));
}

// --- nodes that would plan otherwise

std::shared_ptr<const flow::Wan> falling(std::uint32_t sites, bool upwards) {
  flow::Wan wan;
  for (std::uint32_t i = 0; i < sites; ++i) {
    const double rate = 1e6 * (1 + 3 * (upwards ? i : sites - 1 - i));
    wan.sites.push_back({.name = "site" + std::to_string(i), .up = rate, .down = rate, .lan = {}});
  }
  wan.usual.delay_s = 0.01;
  return std::make_shared<flow::Wan>(wan);
}

// All go by the planner's trees, whatever each would have planned: also after it is lost.
TEST(Replanner, F30_AllGoByThePlannersTreesAlsoWithRatesAsConfigured) {
  for (const bool learned : {false, true}) {
    ExchangeConfig c = learning(4, kGate ? 3 : 4);
    c.learned = learned;
    c.network = falling(4, false);
    for (const Rank rank : {Rank{1}, Rank{3}}) c.believed[rank] = falling(4, true);
    for (std::uint64_t at = 0; at < 1200; at += 17 * kStride) {
      Exchange exchange(c);
      for (std::uint64_t i = 0; i < at; ++i) exchange.step();
      if (at > 0) exchange.net().crash(0);  // rank 1, who plans now, believes something else
      exchange.run();
      ASSERT_EQ(exchange.disagreement(), "") << "learned " << learned << ", crash at " << at;
    }
  }
}

// A node's wait for the first plan has a name.
TEST(Replanner, F30_TheFirstPlanIsAwaitedByName) {
  ExchangeConfig c = learning(3);
  c.learned = false;
  Exchange exchange(c);
  std::set<std::string> seen;
  while (exchange.step())
    for (Rank rank = 0; rank < 3; ++rank) seen.insert(exchange.at(rank).overlay().waiting_for());
  EXPECT_TRUE(seen.contains("round 0: the plan of rank 0"));
  EXPECT_TRUE(seen.contains("round 0: plan 1: acknowledgements of ranks 1, 2"));
}

// --- liars

Message notice_of(const auto& fields, Epoch epoch = 0) {
  TopologyMessage notice = forest::write(fields);
  notice.epoch = epoch;
  Message message;
  message.machine = Path().child(0);
  message.kind = TopologyMessage::kKind;
  message.epoch = epoch;
  message.head = Payload(share(to_wire(notice)));
  return message;
}

forest::NewPlan wild_plan(Random& random) {
  forest::NewPlan plan;
  plan.version = 1 + std::uint32_t(random.below(3));
  plan.start = 1 + random.below(10);
  for (std::uint64_t trees = random.below(3); trees-- > 0;) {
    forest::PlannedTree tree;
    tree.root = std::uint16_t(random.below(4));
    for (int i = 0; i < 3; ++i) {
      tree.reduce_to.push_back(std::uint16_t(random.below(4)));
      tree.spread_from.push_back(std::uint16_t(random.below(4)));
    }
    tree.share = random.uniform();
    plan.trees.push_back(tree);
  }
  return plan;
}

// What is refused leaves no trace: rounds and plans go on as if it had not come.
TEST(Replanner, F27_WhatALiarSaysIsRefusedOrDoesNoHarm) {
  Random random(5, {});
  std::uint64_t refused = 0;
  for (std::uint64_t order = 1; order <= (kGate ? 2 : 20); ++order) {
    ExchangeConfig c = learning(3);
    c.order = order;
    Exchange exchange(c);
    for (std::uint64_t events = 0; exchange.step(); ++events) {
      if (events % (kGate ? 10 : 50) != 0) continue;
      const Rank liar = 1 + Rank(random.below(2)), to = Rank(random.below(3));
      if (liar == to) continue;
      refused += !exchange.net().inject(liar, to, notice_of(wild_plan(random)));
      forest::RateReport lie{0, {{to, 1, 0}}, 0, 0};
      if (to != 0) refused += !exchange.net().inject(liar, to, notice_of(lie));
      refused += !exchange.net().inject(liar, to, notice_of(forest::PlanAck{9, 1}));
    }
    exchange.net().errors.clear();
    ASSERT_EQ(exchange.disagreement(), "") << "order " << order;
    EXPECT_GT(plans(exchange), 0);
  }
  EXPECT_GT(refused, kGate ? 150u : 300u);
}

TEST(Replanner, F27_ReportsThatCannotBeAreRefused) {
  Exchange exchange(learning(3));
  const auto hears = [&](const forest::RateReport& report, Rank from = 2, Rank to = 0) {
    return bool(exchange.net().inject(from, to, notice_of(report)));
  };
  EXPECT_FALSE(hears({0, {{7, 1, 0}}, 0, 0})) << "of a node that is not there";
  EXPECT_FALSE(hears({0, {{2, 1, 0}}, 0, 0})) << "of itself";
  EXPECT_FALSE(hears({0, {{1, 1, 0}, {1, 1, 0}}, 0, 0}));
  EXPECT_FALSE(hears({0, {{1, 1, 0}}, 0, 0}, 2, 1)) << "to one that does not plan";
  EXPECT_TRUE(hears({0, {{0, 1, 0}, {1, 1, 0}}, 0, 0}));
  EXPECT_FALSE(hears({0, {{0, 1, 0}, {1, 1, 0}}, 0, 0})) << "again";
}

}  // namespace
}  // namespace longhaul::overlay
