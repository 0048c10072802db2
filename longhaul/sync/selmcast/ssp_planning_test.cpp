// The numbers of the properties are those of sync/selmcast_test.cpp.
#include "longhaul/sync/selmcast/ssp_planning.h"

#include <gtest/gtest.h>

#include "longhaul/sync/testing/one_node.h"

namespace longhaul::sync::selmcast {
namespace {

using testing::OneNode;
using Stage = SspPlanning::Stage;
using Ranks = std::vector<Rank>;

constexpr std::uint64_t kModel = 4;  // values

// The manager of four workers. The port of worker 3 is slow.
struct Manager {
  Manager() : Manager(config_of()) {}
  explicit Manager(const SspConfig& config) : node(kModel, {}, kMembers), ssp(config) {
    ssp.begin(0, node.turn);
  }
  static SspConfig config_of(double share = 0.25, std::uint32_t overdue_after = 4) {
    return {.staleness = 2,
            .keep_below = 0.75,
            .plan = {.share = share,
                     .overdue_after = overdue_after,
                     .network = {.up = {1, 1, 1, 1}, .down = {1, 1, 1, 0.1}}}};
  }
  template <class M>
  Status hear(Rank from, const M& fields) {
    Message message = longhaul::testing::message_of(fields);
    return ssp.on_message(from, message, node.turn);
  }
  Status progress(Rank from, Round round, Stage stage, std::vector<SspPlanning::Left> left = {},
                  Ranks newest_served = {}) {
    SspPlanning::Progress said{.round = round, .stage = stage, .left = std::move(left)};
    said.served.resize(4);
    for (const Rank rank : newest_served) said.served[rank] = round + 1;
    return hear(from, said);
  }
  // All are at the beginning of their first round.
  void all_begin() {
    for (Rank rank = 0; rank < 4; ++rank) ASSERT_TRUE(progress(rank, 0, Stage::computing));
  }
  template <class M>
  std::vector<std::pair<Rank, M>> told() const {
    std::vector<std::pair<Rank, M>> all;
    for (const Send& send : node.done<Send>())
      if (send.message.kind == M::kKind)
        all.emplace_back(send.to, *from_wire<M>(send.message.head.view()));
    return all;
  }
  static inline const Members kMembers{{"a"}, {"b"}, {"c"}, {"d"}};
  OneNode node;
  SspPlanning ssp;
};

TEST(SspPlanning, AReadyWorkerIsGivenReceiversOnceAllAreKnown) {
  Manager manager;
  EXPECT_TRUE(manager.progress(1, 0, Stage::ready));
  EXPECT_TRUE(manager.told<SspPlanning::Receivers>().empty());
  for (const Rank rank : {0u, 2u, 3u}) EXPECT_TRUE(manager.progress(rank, 0, Stage::computing));
  EXPECT_TRUE(manager.progress(1, 0, Stage::ready));  // again: planned once
  const auto plans = manager.told<SspPlanning::Receivers>();
  ASSERT_EQ(plans.size(), 1u);
  EXPECT_EQ(plans[0].first, 1u);
  EXPECT_EQ(plans[0].second.ranks, Ranks{0});  // one of four, the quickest, lowest number first
  EXPECT_TRUE(manager.told<SspPlanning::Withdraw>().empty());
}

// Property 10. Worker 1 has begun to send to all when worker 2 gets ready: receivers that only it
// holds up are withdrawn, but none that has most of the model, and none that is overdue.
TEST(SspPlanning, Inv10_WhatIsNearlyThereOrOverdueIsNotWithdrawn) {
  const auto withdrawn = [](std::uint64_t left, std::uint32_t overdue_after) {
    Manager manager(Manager::config_of(0.25, overdue_after));
    manager.all_begin();
    EXPECT_TRUE(manager.progress(1, 0, Stage::ready));
    EXPECT_TRUE(manager.progress(1, 0, Stage::sending, {{0, kModel}, {2, kModel}, {3, left}}, {}));
    EXPECT_TRUE(manager.progress(2, 0, Stage::ready));
    Ranks all;
    for (const auto& [to, one] : manager.told<SspPlanning::Withdraw>()) {
      EXPECT_EQ(to, 1u);
      all.insert(all.end(), one.ranks.begin(), one.ranks.end());
    }
    return all;
  };
  const Ranks far = withdrawn(kModel, 4);
  EXPECT_EQ(std::ranges::count(far, 3), 1);
  EXPECT_EQ(std::ranges::count(withdrawn(2, 4), 3), 0);  // half of it, below eta
  EXPECT_EQ(std::ranges::count(withdrawn(0, 4), 3), 0);
  // In its second round worker 3 has had nothing of worker 1 for two rounds.
  Manager overdue(Manager::config_of(0.25, 1));
  overdue.all_begin();
  EXPECT_TRUE(overdue.progress(1, 1, Stage::sending, {{0, kModel}, {3, kModel}}));
  EXPECT_TRUE(overdue.progress(2, 0, Stage::ready));
  EXPECT_TRUE(overdue.told<SspPlanning::Withdraw>().empty());
}

// Property 10. One that was withdrawn is not taken back in that round, whatever its sender says.
TEST(SspPlanning, Inv10_AWithdrawnReceiverStaysSo) {
  Manager manager;
  manager.all_begin();
  EXPECT_TRUE(manager.progress(1, 0, Stage::sending, {{0, kModel}, {2, kModel}, {3, kModel}}));
  EXPECT_TRUE(manager.progress(2, 0, Stage::ready));
  EXPECT_EQ(manager.told<SspPlanning::Withdraw>().size(), 1u);
  // Its sender has not heard of it yet.
  EXPECT_TRUE(manager.progress(1, 0, Stage::sending, {{0, kModel}, {2, kModel}, {3, kModel}}));
  EXPECT_TRUE(manager.progress(0, 0, Stage::ready));
  EXPECT_TRUE(manager.progress(3, 0, Stage::ready));
  Ranks all;
  for (const auto& [to, one] : manager.told<SspPlanning::Withdraw>())
    if (to == 1) all.insert(all.end(), one.ranks.begin(), one.ranks.end());
  std::ranges::sort(all);
  EXPECT_EQ(std::ranges::adjacent_find(all), all.end());
  EXPECT_LT(all.size(), 3u);  // it keeps its share
}

// Property 10: round - slowest <= staleness when a round begins.
TEST(SspPlanning, Inv10_NobodyBeginsARoundTooFarAhead) {
  Manager manager;
  EXPECT_TRUE(manager.ssp.may_compute());
  for (Round round = 1; round <= 3; ++round) manager.ssp.begin(round, manager.node.turn);
  EXPECT_FALSE(manager.ssp.may_compute());
  EXPECT_NE(manager.ssp.waiting_for(manager.node.place).find("to reach round 1"),
            std::string::npos);
  EXPECT_TRUE(manager.hear(0, SspPlanning::Slowest{.epoch = 0, .round = 1}));
  EXPECT_TRUE(manager.ssp.may_compute());
}

TEST(SspPlanning, AllHearOfTheSlowestWhenItMoves) {
  Manager manager;
  manager.all_begin();
  EXPECT_EQ(manager.told<SspPlanning::Slowest>().size(), 4u);  // once in an epoch anyhow
  for (const Rank rank : {0u, 1u, 2u}) EXPECT_TRUE(manager.progress(rank, 1, Stage::computing));
  EXPECT_EQ(manager.told<SspPlanning::Slowest>().size(), 4u);
  EXPECT_TRUE(manager.progress(3, 1, Stage::computing));
  const auto told = manager.told<SspPlanning::Slowest>();
  ASSERT_EQ(told.size(), 8u);
  EXPECT_EQ(told.back().second.round, 1u);
}

TEST(SspPlanning, WhatIsNotOfThisJobOrNotFromTheManagerIsMalformed) {
  Manager manager;
  SspPlanning::Progress said;
  EXPECT_FALSE(manager.hear(1, said));  // no rank's rounds
  said.served.resize(4);
  said.left = {{1, 2}};
  EXPECT_FALSE(manager.hear(1, said));  // to itself
  said.left = {{2, kModel + 1}};
  EXPECT_FALSE(manager.hear(1, said));  // more than a model
  said.left = {{2, 1}, {2, 1}};
  EXPECT_FALSE(manager.hear(1, said));  // twice
  said.left = {{7, 1}};
  EXPECT_FALSE(manager.hear(1, said));  // nobody
  said.left.clear();
  said.epoch = 3;
  EXPECT_FALSE(manager.hear(1, said));  // an epoch to come
  EXPECT_FALSE(manager.hear(1, SspPlanning::Receivers{.ranks = {2}}));
  EXPECT_FALSE(manager.hear(0, SspPlanning::Receivers{.ranks = {0}}));
  EXPECT_FALSE(manager.hear(0, SspPlanning::Receivers{.ranks = {9}}));
  EXPECT_FALSE(manager.hear(1, SspPlanning::Withdraw{.ranks = {2}}));
  EXPECT_FALSE(manager.hear(1, SspPlanning::Slowest{.round = 5}));
  EXPECT_FALSE(manager.hear(0, SspPlanning::Slowest{.epoch = 2}));
}

// A receipt counts for the model that is sent now, once, and there is none of a model to come.
TEST(SspPlanning, ReceiptsAreOfTheModelThatIsSent) {
  Manager manager;
  manager.ssp.begin(1, manager.node.turn);
  EXPECT_TRUE(manager.hear(1, SspPlanning::Got{.round = 0}));  // late
  EXPECT_FALSE(manager.hear(1, SspPlanning::Got{.round = 1}));
  manager.ssp.ready(manager.node.turn);
  EXPECT_FALSE(manager.hear(1, SspPlanning::Got{.round = 1}));
  EXPECT_TRUE(manager.hear(0, SspPlanning::Receivers{.round = 1, .ranks = {1, 2}}));
  EXPECT_EQ(manager.ssp.take_receivers(), (Ranks{1, 2}));
  EXPECT_TRUE(manager.hear(2, SspPlanning::Got{.round = 1}));
  EXPECT_TRUE(manager.hear(2, SspPlanning::Got{.round = 1}));
  EXPECT_FALSE(manager.hear(2, SspPlanning::Got{.round = 2}));
  EXPECT_EQ(manager.ssp.take_got(), std::set<Rank>{2});
  EXPECT_TRUE(manager.ssp.take_got().empty());
}

TEST(SspPlanning, ASenderHearsWhenItsModelHasCome) {
  Manager manager;
  manager.ssp.received(2, 5, manager.node.turn);
  const auto told = manager.told<SspPlanning::Got>();
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].first, 2u);
  EXPECT_EQ(told[0].second.round, 5u);
}

// The receivers of a round are taken once; those withdrawn before that, after it.
TEST(SspPlanning, ReceiversAndWithdrawalsAreTakenOnce) {
  Manager manager;
  manager.ssp.ready(manager.node.turn);
  EXPECT_TRUE(manager.hear(0, SspPlanning::Receivers{.ranks = {1, 2}}));
  EXPECT_TRUE(manager.hear(0, SspPlanning::Withdraw{.ranks = {2}}));
  EXPECT_TRUE(manager.hear(0, SspPlanning::Withdraw{.round = 5, .ranks = {1}}));  // not of now
  EXPECT_TRUE(manager.ssp.take_withdrawn().empty());
  EXPECT_EQ(manager.ssp.take_receivers(), (Ranks{1, 2}));
  EXPECT_FALSE(manager.ssp.take_receivers());
  EXPECT_EQ(manager.ssp.take_withdrawn(), Ranks{2});
  EXPECT_TRUE(manager.ssp.take_withdrawn().empty());
}

}  // namespace
}  // namespace longhaul::sync::selmcast
