#include "longhaul/sync/server/end_rule.h"

#include <gtest/gtest.h>

#include "longhaul/sync/testing/one_node.h"

namespace longhaul::sync::server {
namespace {

using testing::OneNode;
using Reason = StopRule::Reason;

struct Running {
  explicit Running(StopConfig config, std::uint64_t workers = 3) : rule(config, workers) {
    store.fill(std::vector<float>(4, 1));
  }
  void commit(std::uint64_t samples = 1) {
    rule.used(samples);
    store.change()[0] += 1;
    store.committed();
    rule.committed(store, node.turn);
  }
  std::vector<Round> reported() const {
    std::vector<Round> rounds;
    for (const Report& report : node.done<Report>()) rounds.push_back(report.round);
    return rounds;
  }
  OneNode node{4};
  ParameterStore store;
  EndRule rule;
};

TEST(EndRule, ARoundIsAsManyCommitsAsWorkers) {
  Running run({.max_rounds = 4, .report_every = 2, .lag = 9});
  for (int i = 0; i < 12; ++i) {
    EXPECT_FALSE(run.rule.over());
    run.commit();
  }
  EXPECT_EQ(run.rule.reason(), Reason::max_rounds);
  EXPECT_EQ(run.reported(), (std::vector<Round>{1, 3}));
  EXPECT_EQ((*run.node.done<Report>()[0].model)[0], 7.f);
  EXPECT_EQ(run.rule.rounds(run.store.version()), 4u);
}

TEST(EndRule, TheTargetEndsARunWhenItsScoreIsHeard) {
  Running run({.target_accuracy = 0.9});
  for (int i = 0; i < 3; ++i) run.commit();
  run.rule.scored(5, {.accuracy = 1});  // nobody reported it
  run.rule.scored(0, {.accuracy = 0.8});
  EXPECT_FALSE(run.rule.over());
  for (int i = 0; i < 4; ++i) run.commit();
  run.rule.scored(1, {.accuracy = 0.9});
  EXPECT_EQ(run.rule.reason(), Reason::target);
}

TEST(EndRule, KeepsFewModelsThatWaitForTheirScore) {
  Running run({.lag = 1});
  for (int i = 0; i < 12; ++i) run.commit();
  EXPECT_EQ(run.reported(), (std::vector<Round>{0, 1}));
  run.rule.scored(0, {});
  for (int i = 0; i < 3; ++i) run.commit();
  EXPECT_EQ(run.reported(), (std::vector<Round>{0, 1, 4}));
}

TEST(EndRule, SamplesAndTimeEndARunAtTheEndOfARound) {
  Running samples({.max_samples = 12});
  for (int i = 0; i < 5; ++i) samples.commit(2);
  EXPECT_FALSE(samples.rule.over());
  samples.commit(2);
  EXPECT_EQ(samples.rule.reason(), Reason::max_samples);
  Running hours({.max_hours = 0.5});
  for (int i = 0; i < 3; ++i) hours.commit();
  EXPECT_FALSE(hours.rule.over());
  hours.node.context.now = std::chrono::minutes(30);
  for (int i = 0; i < 3; ++i) hours.commit();
  EXPECT_EQ(hours.rule.reason(), Reason::max_hours);
}

TEST(EndRule, APhantomReportsAModelWithoutNumbers) {
  Running run({.snapshots = false}, 1);
  run.commit();
  ASSERT_EQ(run.node.done<Report>().size(), 1u);
  ASSERT_NE(run.node.done<Report>()[0].model, nullptr);
  EXPECT_TRUE(run.node.done<Report>()[0].model->empty());
}

TEST(ParameterStore, ASnapshotIsSharedUntilTheModelChanges) {
  ParameterStore store;
  store.fill(std::vector<float>{1, 2});
  const float* first = store.values().data();
  const Snapshot held = store.snapshot(), same = store.snapshot();
  EXPECT_EQ(held->data(), first);
  store.change()[0] = 5;
  EXPECT_EQ((*held)[0], 1.f);
  EXPECT_EQ(store.values()[0], 5.f);
  const float* second = store.values().data();
  EXPECT_NE(second, first);
  store.change()[0] = 6;  // nobody holds this one: in place
  EXPECT_EQ(store.values().data(), second);
}

TEST(Clocks, TheMinimumIsThatOfTheSlowestWhoLives) {
  Clocks clocks({1, 2, 5});
  for (int i = 0; i < 4; ++i) clocks.complete(1), clocks.complete(5);
  clocks.complete(9);  // no worker
  EXPECT_EQ(clocks.minimum(), 0u);
  EXPECT_EQ(clocks.slowest(), std::vector<Rank>{2});
  EXPECT_TRUE(within_bound(3, clocks.minimum(), 3));
  EXPECT_FALSE(within_bound(4, clocks.minimum(), 3));
  clocks.lose(2);
  EXPECT_EQ(clocks.minimum(), 4u);
  EXPECT_EQ(clocks.of(2), 0u);
}

}  // namespace
}  // namespace longhaul::sync::server
