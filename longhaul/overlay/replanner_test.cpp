// Whole exchanges over a forest that learns its rates: an event of the test's net takes 1 ns, so
// rates are whatever the order of events makes of them, and plans change as often as they can.
#include "longhaul/overlay/forest.h"

#include <deque>

#include <gtest/gtest.h>

#include "longhaul/base/testing/archived.h"
#include "longhaul/base/testing/effort.h"
#include "longhaul/core/testing/machine_net.h"
#include "longhaul/core/testing/plain_transfer.h"
#include "longhaul/overlay/agreed.h"
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
        Exchange exchange = Exchange::agreed(c);
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
    replanner.on_team(0, &team);
    replanner.on_ready({}, grid, output);
    forest::NewPlan first = forest::to_message(*replanner.agreement().first());
    first.version = 1;
    for (const Rank rank : {1u, 2u, 3u}) tell(rank, forest::PlanAck{1, digest_of(first)});
  }
  void tell(Rank from, const auto& message) {
    const Status taken = replanner.take(from, forest::write(message), output);
    EXPECT_TRUE(taken) << taken.error().what;
  }
  void pass(Round round) {
    replanner.on_contributed({round, 0, 0}, std::chrono::seconds(2 * round));
    replanner.on_mean_ready({round, 0, 0}, grid, std::chrono::seconds(2 * round + 1), output);
  }
  void report(Rank rank, Round round) {
    forest::RateReport report{round, {}, 0, 0, 1};
    for (Rank to = 0; to < 4; ++to)
      if (to != rank) report.pairs.push_back({to, rank == 2 && to == 3 ? 1e5 : 1e6, 0});
    tell(rank, report);
  }
  std::uint32_t version() const { return replanner.agreement().version(); }

  const Partition grid{4'000'000, 1, 10'000};
  PlannedForest replanner{{.rates = "learned"}, {}, testing::place_of(4, 1)};
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
  Message message = longhaul::testing::message_of(notice);
  message.machine = Path().child(0);
  message.epoch = epoch;
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

// What an AgreedMean does with a topology that plans anew, seen with one whose plans, wishes and
// notices are the test's.

constexpr std::uint64_t kNumbers = 8;

using namespace std::chrono_literals;
using longhaul::testing::MachineNet;

// Stars, with another centre for every beginning. Notices of kind 1 say whether parts are held.
class Stars final : public Topology {
 public:
  Partition cut(std::uint64_t length, std::uint32_t, std::uint64_t chunk) const override {
    return {length, 1, chunk};
  }
  std::optional<ReducePlan> plan(const Partition& grid, const GroupMembers&) const override {
    return plan_since(0, grid);
  }
  Standing standing(const VectorId& key) const override {
    return {since_of ? since_of(key) : 0,
            held ? std::optional<std::string>("the word of the test") : std::nullopt};
  }
  ReducePlan plan_since(Round since, const Partition& grid) const override {
    ++planned[since];
    const auto centre = std::uint32_t(since % 3);
    const std::vector<std::uint32_t> all(3, centre);
    return {{{centre, all, all}},
            std::vector<std::uint32_t>(grid.pieces(), 0),
            {},
            {.interleaved = true}};
  }
  void on_ready(const VectorId& key, const Partition&, TopologyOutput&) override {
    ready.push_back(key.round);
  }
  void on_contributed(const VectorId& key, Time) override { gave.push_back(key.round); }
  void on_mean_ready(const VectorId& key, const Partition&, Time, TopologyOutput& output) override {
    over.push_back(key.round);
    output.figures.emplace_back("stars", key.round, 1);
  }
  void on_moved(const Moved&, Time) override {}
  Status take(Rank from, const TopologyMessage& notice, TopologyOutput& output) override {
    heard.push_back(from);
    if (notice.kind != 1) return malformed("strange");
    held = notice.words.at(0) != 0;
    if (from == 0) output.told.emplace_back(2, notice);  // what rank 0 says is passed on
    return Ok{};
  }

  std::function<Round(const VectorId&)> since_of;
  bool held = false;
  std::vector<Round> ready, gave, over;
  std::vector<Rank> heard;
  mutable std::map<Round, int> planned;
};

// Keeps what it is to send; what it is said to have sent is the test's.
class Holder final : public Transfer {
 public:
  void attach(VectorPort&) override {}
  void begin(Outgoing out, Turn&) override { posts.push_back(std::move(out)); }
  void cancel(const TransferKey&, std::optional<Rank>) override {}
  std::uint64_t remaining(const TransferKey&, Rank) const override { return 0; }
  void reprioritise(const TransferKey&, Rank, Service, Turn&) override {}
  std::optional<Arrival> arrived() override { return std::nullopt; }
  std::optional<Sent> sent() override {
    if (gone.empty()) return std::nullopt;
    const Sent first = gone.front();
    gone.pop_front();
    return first;
  }
  std::vector<Outgoing> posts;
  std::deque<Sent> gone;
};

// Three workers and, as rank 3, a node that is none.
struct ReplanningTest : ::testing::Test {
  explicit ReplanningTest(bool whole = false)
      : net({.ranks = 4,
             .layout = Layout::flat(kNumbers),
             .chunk_bytes = 16,
             .members = {{"a"}, {"b"}, {"c"}, {"d", 0, 0, std::uint8_t(Role::state_server)}}},
            [&, whole](const Place& place) {
              OverlayParts parts;
              if (whole) {
                parts.transfer =
                    std::make_unique<longhaul::testing::PlainTransfer>(/*scrambles=*/true);
              } else {
                auto transfer = std::make_unique<Holder>();
                holders[place.self] = transfer.get();
                parts.transfer = std::move(transfer);
              }
              parts.make_codec = [](bool) { return nullptr; };
              auto topology = std::make_unique<Stars>();
              stars[place.self] = topology.get();
              return std::make_unique<AgreedMean>(place, std::move(parts), std::move(topology));
            }) {}
  AgreedMean& at(Rank rank) { return static_cast<AgreedMean&>(net.machine(rank)); }
  void begin(Rank rank, Round round, std::uint32_t range = 0) {
    net.act(rank, [&](Turn& turn) {
      const std::vector<float> values(kNumbers, float(rank));
      ASSERT_TRUE(at(rank).begin({round, 0, range}, {}, {values, kNumbers, 1, true}, turn));
    });
  }
  Status say(Rank from, Rank to, bool held, Epoch epoch = 0, std::uint16_t kind = 1) {
    TopologyMessage notice{.epoch = epoch, .kind = kind, .words = {std::uint8_t(held)}};
    Message message = longhaul::testing::message_of(notice);
    message.epoch = epoch;
    return net.inject(from, to, message);
  }
  std::map<Rank, Stars*> stars;
  std::map<Rank, Holder*> holders;
  MachineNet net;
};

struct WholeReplanningTest : ReplanningTest {
  WholeReplanningTest() : ReplanningTest(true) {}
};

TEST_F(ReplanningTest, NoticesOfOthersThanMembersAndOfEpochsToComeAreRefused) {
  EXPECT_FALSE(say(0, 1, false, 1));
  EXPECT_FALSE(say(3, 1, false)) << "takes no part";
  EXPECT_FALSE(say(1, 3, false)) << "to one that takes no part";
  EXPECT_TRUE(stars[1]->heard.empty());
  EXPECT_TRUE(say(0, 1, false));
  EXPECT_FALSE(say(2, 1, false, 0, 7)) << "what the topology refuses";
  EXPECT_EQ(stars[1]->heard, (std::vector<Rank>{0, 2}));
}

TEST_F(ReplanningTest, ANoticeOfAnEpochThatIsOverIsLate) {
  net.crash(2);
  net.run(1000);
  ASSERT_EQ(net.view(1).epoch, 1u);
  net.records.clear();
  EXPECT_TRUE(say(0, 1, false, 0));
  EXPECT_TRUE(stars[1]->heard.empty());
  EXPECT_EQ(net.records["late"], 1);
  EXPECT_TRUE(say(0, 1, false, 1));
  EXPECT_EQ(stars[1]->heard, (std::vector<Rank>{0}));
}

// What a topology tells goes to the others' topologies, and figures to the run.
TEST_F(WholeReplanningTest, WhatATopologyTellsIsHeardAndItsFiguresAreKept) {
  EXPECT_TRUE(say(0, 1, false));
  net.run(1000);
  EXPECT_EQ(stars[2]->heard, (std::vector<Rank>{1}));
  for (Rank rank = 0; rank < 3; ++rank) begin(rank, 0);
  net.run(1000);
  for (Rank rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(stars[rank]->over, (std::vector<Round>{0}));
    const auto mean = at(rank).poll({0, 0, 0});
    ASSERT_TRUE(mean);
    EXPECT_EQ(mean->values, std::vector<float>(kNumbers, 1.f));
  }
  EXPECT_EQ(net.records["stars"], 3);
}

// A part that is held waits by name, and is given as soon as a notice frees it: once.
TEST_F(ReplanningTest, AHeldPartIsNamedAndGivenWhenItMayBe) {
  stars[1]->held = true;
  begin(1, 0);
  EXPECT_TRUE(holders[1]->posts.empty());
  EXPECT_EQ(at(1).waiting_for(), "round 0: the word of the test");
  ASSERT_TRUE(say(2, 1, true));
  EXPECT_TRUE(holders[1]->posts.empty());
  EXPECT_TRUE(stars[1]->gave.empty());
  ASSERT_TRUE(say(2, 1, false));
  EXPECT_EQ(holders[1]->posts.size(), 2u) << "one a piece";
  EXPECT_EQ(stars[1]->gave, (std::vector<Round>{0}));
  ASSERT_TRUE(say(2, 1, false));
  EXPECT_EQ(holders[1]->posts.size(), 2u) << "one a piece";
}

// Of the newest round's contribution, to the slowest of its receivers; nothing else counts.
TEST_F(ReplanningTest, GivingTakesAsLongAsToTheSlowestReceiver) {
  EXPECT_EQ(at(1).gave(), Time{0});
  const auto goes = [&](Round round, Rank to, Time took, Phase phase = Phase::part,
                        std::uint32_t range = 0) {
    const TransferKey key{0, {{round, 0, range}, 1}, std::uint8_t(phase), Coding::up};
    holders[1]->gone.push_back({key, to, true, 10, took});
  };
  goes(4, 0, 3s), goes(4, 2, 5s), goes(4, 0, 4s);
  goes(4, 2, 9s, Phase::mean), goes(4, 2, 9s, Phase::repair), goes(4, 2, 9s, Phase::part, 1);
  goes(3, 2, 9s);
  net.act(1, [](Turn&) {});
  EXPECT_EQ(at(1).gave(), 5s);
  goes(5, 2, 1s);
  net.act(1, [](Turn&) {});
  EXPECT_EQ(at(1).gave(), 1s);
}

// A plan is made once, and kept while a round goes by it: of two at a time the other is forgotten.
TEST_F(WholeReplanningTest, PlansAreMadeOnceAndForgottenBehindTheirRounds) {
  for (Rank rank = 0; rank < 3; ++rank)
    stars[rank]->since_of = [](const VectorId& key) { return key.round / 4 % 2 + 1; };
  for (Round round = 0; round < 16; ++round) {
    for (Rank rank = 0; rank < 3; ++rank) begin(rank, round);
    net.run(1000);
    for (Rank rank = 0; rank < 3; ++rank) ASSERT_TRUE(at(rank).poll({round, 0, 0}));
  }
  for (Rank rank = 0; rank < 3; ++rank)
    EXPECT_EQ(stars[rank]->planned, (std::map<Round, int>{{1, 2}, {2, 2}})) << rank;
  EXPECT_TRUE(net.errors.empty());
}

}  // namespace
}  // namespace longhaul::overlay
