// What an AgreedMean does with a topology that plans anew, seen with one whose plans, wishes and
// notices are the test's.
#include <deque>

#include <gtest/gtest.h>

#include "longhaul/core/testing/machine_net.h"
#include "longhaul/overlay/agreed.h"
#include "longhaul/overlay/testing/scrambler.h"
#include "longhaul/overlay/tree_attempt.h"

namespace longhaul::overlay {
namespace {

constexpr std::uint64_t kNumbers = 8;

using namespace std::chrono_literals;
using longhaul::testing::MachineNet;

// Stars, with another centre for every beginning. Notices of kind 1 say whether parts are held.
class Stars final : public Topology, public ReplanningTopology {
 public:
  ReplanningTopology* replanning() override { return this; }
  Partition cut(std::uint64_t length, std::uint32_t, std::uint64_t chunk) const override {
    return {length, 1, chunk};
  }
  std::optional<Forest> forest(const Partition& grid, const GroupMembers&) const override {
    return forest_since(0, grid);
  }
  std::unique_ptr<Attempt> open(const ExchangeSpec& spec) const override {
    return std::make_unique<TreeAttempt>(spec, true, true);
  }
  Standing standing(const VectorId& key) const override {
    return {since_of ? since_of(key) : 0,
            held ? std::optional<std::string>("the word of the test") : std::nullopt};
  }
  Forest forest_since(Round since, const Partition& grid) const override {
    ++planned[since];
    const auto centre = std::uint32_t(since % 3);
    const std::vector<std::uint32_t> all(3, centre);
    return {{{centre, all, all}}, std::vector<std::uint32_t>(grid.pieces(), 0)};
  }
  void on_ready(const VectorId& key, const Partition&, TopologyOutput&) override {
    ready.push_back(key.round);
  }
  void on_contributed(const VectorId& key, Time) override { gave.push_back(key.round); }
  void on_mean_ready(const VectorId& key, const Partition&, Time, TopologyOutput& output) override {
    over.push_back(key.round);
    output.record("stars", key.round, 1);
  }
  void on_moved(const Moved&, Time) override {}
  Status take(Rank from, const TopologyMessage& notice, TopologyOutput& output) override {
    heard.push_back(from);
    if (notice.kind != 1) return malformed("strange");
    held = notice.words.at(0) != 0;
    if (from == 0) output.tell(2, notice);  // what rank 0 says is passed on
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
                parts.transfer = std::make_unique<testing::Scrambler>();
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
    Message message;
    message.kind = TopologyMessage::kKind;
    message.epoch = epoch;
    message.head = Payload(share(to_wire(notice)));
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
