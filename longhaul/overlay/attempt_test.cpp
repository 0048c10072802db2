#include "longhaul/overlay/attempt.h"

#include <cstring>

#include <gtest/gtest.h>

#include "longhaul/base/testing/archived.h"
#include "longhaul/core/testing/machine_net.h"
#include "longhaul/core/testing/narrow.h"
#include "longhaul/overlay/agreed.h"
#include "longhaul/overlay/fixed_plans.h"
#include "longhaul/overlay/messages.h"
#include "longhaul/overlay/testing/paper_context.h"

namespace longhaul::overlay {
namespace {

using longhaul::testing::MachineNet;
using longhaul::testing::Narrow;
using testing::PaperContext;
using testing::Table;

// Opens what an attempt shares with all others.
class Bare final : public Attempt {
 public:
  using Attempt::Attempt, Attempt::key, Attempt::post, Attempt::refuse, Attempt::set_contribution,
      Attempt::share, Attempt::tell_contributors;
  void contribute(std::uint64_t, double, AttemptContext&) override {}
  Status take_announcement(Rank, const Announcement&, AttemptContext&) override { return Ok{}; }
  Result<bool> admit(Rank, const TransferKey&, std::size_t) const override { return true; }
  Status take(Arrival&&, std::size_t, AttemptContext&) override { return Ok{}; }
  Payload encoded(const TransferKey&, std::size_t, AttemptContext&) override { return {}; }
  Progress progress() const override { return {true, true}; }
  std::string waiting_for(const std::vector<bool>&) const override { return ""; }
};

// Of workers 0 to 19 four are left; rank 9 speaks, or a server that is no member.
struct AttemptTest : ::testing::Test {
  static GroupMembers team(Rank self) {
    GroupMembers team{
        .self = self, .epoch = 3, .workers = {}, .members = {1, 4, 9, 17}, .server = {}};
    for (Rank rank = 0; rank < 20; ++rank) team.workers.insert(rank);
    return team;
  }
  Table worker{team(9), 40, 20, 2}, server{team(20), 40, 20, 2};
  PaperContext context{worker.grid};
};

TEST(Serving, TheLowestWorkerServesWhereNoServerLives) {
  const std::vector<Rank> workers = {1, 2, 5};
  struct Served final : ServedTopology {
    using ServedTopology::ServedTopology;
    std::unique_ptr<Attempt> open(const ExchangeSpec&) const override { return nullptr; }
  };
  EXPECT_EQ(Served(std::nullopt).server(workers, {0, workers}), 1u);
  EXPECT_EQ(Served(Rank{9}).server(workers, {0, {1, 2, 5, 9}}), 9u);
  EXPECT_EQ(Served(Rank{9}).server(workers, {1, workers}), 1u);
}

TEST_F(AttemptTest, AnExactExchangeNeverUsesACodec) {
  for (const Coding coding : {Coding::exact, Coding::up, Coding::down}) {
    EXPECT_EQ(Bare(worker.spec(0, true)).key(Phase::part, coding, 4).coding, Coding::exact);
    EXPECT_EQ(Bare(worker.spec(0, false)).key(Phase::part, coding, 4).coding, coding);
  }
  EXPECT_TRUE(Bare(worker.spec(0, true)).share(40).exact) << "and says so";
}

// Rounds overlap by one: what is left of the last must not wait for what is new. Ranges of a round
// that are begun in any order leave in theirs. Rounds never come to an end.
TEST_F(AttemptTest, OlderRoundsGoFirstThenLowerRangesThenWhatHasTheLongestWayToGo) {
  constexpr std::uint32_t kHops = 5;
  std::vector<std::uint64_t> orders;
  for (const Round round : {Round{0}, Round{1}, Round{2}, Round{1} << 40})
    for (const std::uint32_t range : {0u, 1u, 40u}) {
      ExchangeSpec spec = worker.spec(round);
      spec.key.range = range;
      Bare attempt(spec);
      for (std::uint32_t hop = 0; hop < kHops; ++hop)
        attempt.post(attempt.key(Phase::part, Coding::up, 9), 4, {{0, 2}}, 1, hop, kHops, context);
    }
  for (const Outgoing& out : context.posts) orders.push_back(out.service.order);
  ASSERT_EQ(orders.size(), 12 * kHops);
  for (std::size_t i = 1; i < orders.size(); ++i) EXPECT_LT(orders[i - 1], orders[i]) << i;
}

// A new view cancels by these names, also in a run that was resumed.
TEST_F(AttemptTest, WhateverWasPostedCanBeCancelledAfterLoadingToo) {
  Bare attempt(worker.spec(7)), loaded(worker.spec(7));
  attempt.set_contribution(0.5);
  std::set<TransferKey> keys;
  for (const Phase phase : {Phase::part, Phase::mean})
    for (const Rank origin : {4u, 9u}) {
      keys.insert(attempt.key(phase, Coding::up, origin));
      for (const Rank to : {1u, 17u})
        attempt.post(attempt.key(phase, Coding::up, origin), to, {{0, 2}}, 1, 0, 2, context);
    }
  EXPECT_EQ(attempt.posted(), keys);
  ASSERT_TRUE(longhaul::testing::copy_state(attempt, loaded));
  EXPECT_EQ(loaded.posted(), keys);
  EXPECT_TRUE(loaded.contributed());
  EXPECT_EQ(loaded.share(40).weight, 0.5);
}

// Bits by rank, weights by place in the team.
TEST_F(AttemptTest, TheRosterNamesWhoBroughtSomething) {
  const std::vector<double> weights = {2, 0.5, 0, 4};
  Bare(worker.spec(7)).tell_contributors(weights, context);
  const std::vector<Rank> counted = {1, 4, 17};
  EXPECT_EQ(context.contributors_known, (testing::Known{{counted, 6.5}}));
  std::vector<Rank> told;
  for (const auto& [to, roster] : context.rosters()) {
    told.push_back(to);
    EXPECT_EQ(roster.counted, (std::vector<std::uint8_t>{1 << 1 | 1 << 4, 0, 1 << 1}));
    EXPECT_EQ(roster.weight, 6.5);
    EXPECT_EQ(roster.epoch, 3u);
    EXPECT_EQ(roster.vector, (CodecKey{{7, 0, 0}, 9}));
  }
  EXPECT_EQ(told, (std::vector<Rank>{17, 1, 4})) << "all others, beginning after oneself";
}

TEST_F(AttemptTest, AServerTellsAllAndKeepsNoMeanItself) {
  Bare(server.spec()).tell_contributors(std::vector<double>{1, 1, 1, 1}, context);
  EXPECT_EQ(context.rosters().size(), 4u);
  EXPECT_TRUE(context.contributors_known.empty());
}

TEST_F(AttemptTest, OnlyMembersContributeAndOnce) {
  Bare attempt(worker.spec()), outside(server.spec());
  attempt.set_contribution(1);
  EXPECT_DEATH(attempt.set_contribution(1), "contributed_");
  EXPECT_DEATH(outside.set_contribution(1), "takes_part");
}

// What a user reads when hundreds of peers are missing.
TEST_F(AttemptTest, LongListsOfRanksAreCutAndRefusalsNameRoundAndPeer) {
  EXPECT_EQ(list_ranks({}), "");
  EXPECT_EQ(named_ranks({2}), "rank 2");
  EXPECT_EQ(named_ranks({2, 5}), "ranks 2, 5");
  EXPECT_EQ(list_ranks({2, 5}), "2, 5");
  EXPECT_EQ(list_ranks(std::vector<Rank>(8, 3)), "3, 3, 3, 3, 3, 3, 3, 3");
  EXPECT_EQ(list_ranks(std::vector<Rank>(300, 3)), "3, 3, 3, 3, 3, 3, 3, 3 and 292 more");
  const Status refused = Bare(worker.spec(7)).refuse(4, "a second share");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, Error::Kind::malformed);
  EXPECT_NE(refused.error().what.find("round 7 of rank 4: a second share"), std::string::npos)
      << refused.error().what;
}

TEST(RankBits, AreAsDescribed) {
  EXPECT_EQ(to_bits({}), std::vector<std::uint8_t>{});
  EXPECT_EQ(to_bits({0, 3, 7, 17}), (std::vector<std::uint8_t>{0b1000'1001, 0, 0b10}));
}

TEST(RankBits, ComeBackInOrder) {
  EXPECT_EQ(from_bits(to_bits({17, 0, 3})), (std::vector<Rank>{0, 3, 17}));
  EXPECT_EQ(from_bits({0, 0}), std::vector<Rank>{});
}

// What the pieces of an AgreedMean are written with, seen through the port that its transfer has.

// Keeps what it is given, and has the port.
class Keeper final : public Transfer {
 public:
  void attach(VectorPort& owner) override { port = &owner; }
  void begin(Outgoing out, Turn&) override { posts.push_back(std::move(out)); }
  void cancel(const TransferKey&, std::optional<Rank>) override {}
  std::uint64_t remaining(const TransferKey&, Rank) const override { return 0; }
  void reprioritise(const TransferKey&, Rank, Service, Turn&) override {}
  std::optional<Arrival> arrived() override { return std::nullopt; }
  std::optional<Sent> sent() override { return std::nullopt; }
  VectorPort* port = nullptr;
  std::vector<Outgoing> posts;
};

// Rank 1 of a hub whose server is rank 0: it sends its part of eight numbers in pieces of four.
struct CodingTest : ::testing::Test {
  void begin(bool exact, bool phantom = false) {
    const std::vector<float> values = {1, 2, 3, 0, 5, 0, 0, 0};
    net = std::make_unique<MachineNet>(
        MachineNet::Config{
            .ranks = 2, .layout = Layout::flat(8), .chunk_bytes = 16, .phantom = phantom},
        [this](const Place& place) {
          OverlayParts parts;
          auto transfer = std::make_unique<Keeper>();
          if (place.self == 1) keeper = transfer.get();
          parts.transfer = std::move(transfer);
          parts.make_codec = [this, &place](bool feedback) {
            auto codec = std::make_unique<Narrow>();
            if (place.self == 1 && feedback) up = codec.get();
            return codec;
          };
          parts.server = 0;
          auto hub = std::make_unique<Hub>(Hub::Config{}, parts, place);
          return std::make_unique<AgreedMean>(place, std::move(parts), std::move(hub));
        });
    net->act(1, [&](Turn& turn) {
      const auto given = phantom ? std::span<const float>{} : std::span<const float>(values);
      ASSERT_TRUE(static_cast<AgreedMean&>(net->machine(1))
                      .begin({}, {}, {given, 8, 1, true, exact}, turn));
    });
    ASSERT_EQ(keeper->posts.size(), 1u);
    ASSERT_EQ(keeper->posts[0].ranges, (std::vector<Range>{{0, 4}, {4, 4}}));
  }
  Payload written(std::size_t piece) {
    return keeper->port->encoded(keeper->posts[0].key, keeper->posts[0].ranges[piece]);
  }
  std::unique_ptr<MachineNet> net;
  Keeper* keeper = nullptr;
  Narrow* up = nullptr;
};

// Error feedback of a vector is found by these names again.
TEST_F(CodingTest, ACodecIsToldWhoseNumbersTheseAreAndWhere) {
  begin(/*exact=*/false);
  EXPECT_EQ(written(1).size(), 1u);
  EXPECT_EQ(written(0).size(), 3u);
  ASSERT_EQ(up->asked.size(), 2u);
  for (std::size_t i = 0; i < 2; ++i) EXPECT_EQ(up->asked[i].first, (CodecKey{{0, 0, 0}, 1}));
  EXPECT_EQ(up->asked[0].second, (Range{4, 4}));
  EXPECT_EQ(up->asked[1].second, (Range{0, 4}));
}

TEST_F(CodingTest, AnExactVectorIsWrittenAsItStands) {
  begin(/*exact=*/true);
  const float expected[] = {5, 0, 0, 0};
  const Payload bytes = written(1);
  ASSERT_EQ(bytes.size(), sizeof expected);
  EXPECT_EQ(std::memcmp(bytes.view().data(), expected, sizeof expected), 0);
  EXPECT_TRUE(up->asked.empty());
}

// As many bytes as a real one at most, no numbers, and no codec.
TEST_F(CodingTest, PhantomsHaveTheSizeOfTheCodecAndNoNumbers) {
  for (const bool exact : {false, true}) {
    begin(exact, /*phantom=*/true);
    EXPECT_TRUE(written(0).is_phantom());
    EXPECT_EQ(written(0).size(), exact ? 16u : 4u);
    EXPECT_TRUE(up->asked.empty());
    const auto values =
        keeper->port->decode({0, {{0, 0, 0}, 0}, 1, Coding::down}, {0, 4}, Payload::phantom(4));
    ASSERT_TRUE(values);
    EXPECT_TRUE(values->empty());
    EXPECT_FALSE(
        keeper->port->decode({0, {{0, 0, 0}, 0}, 1, Coding::down}, {0, 4}, Payload::phantom(5)));
  }
}

}  // namespace
}  // namespace longhaul::overlay
