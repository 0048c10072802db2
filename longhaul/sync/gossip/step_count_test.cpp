#include "longhaul/sync/gossip/step_count.h"

#include <gtest/gtest.h>

#include "longhaul/sync/testing/one_node.h"

namespace longhaul::sync::gossip {
namespace {

using testing::OneNode;
using Reason = StepCount::Reason;

// The node of one of three workers, with its count.
struct Counting {
  explicit Counting(Rank self, StopConfig config)
      : node(4, {}, Members{{"a"}, {"b"}, {"c"}}), count(config, node.place) {
    node.place.self = self;
  }
  template <class M>
  Status hear(Rank from, const M& fields) {
    Message message = longhaul::testing::message_of(fields);
    return count.on_message(from, message, node.turn);
  }
  std::vector<StepCount::RoundsDone> told() const {
    std::vector<StepCount::RoundsDone> all;
    for (const Send& send : node.done<Send>())
      if (send.message.kind == StepCount::RoundsDone::kKind)
        all.push_back(*from_wire<StepCount::RoundsDone>(send.message.head.view()));
    return all;
  }
  OneNode node;
  StepCount count;
};

TEST(StepCount, ARoundIsAsManyUnitsOfAllAsThereAreWorkers) {
  Counting senior(0, {.max_rounds = 3, .report_every = 2});
  senior.count.took(1, senior.node.turn);
  EXPECT_TRUE(senior.hear(2, StepCount::Taken{1, 1}));
  EXPECT_TRUE(senior.hear(2, StepCount::Taken{1, 1}));  // the same again
  EXPECT_EQ(senior.count.rounds(), 0u);
  EXPECT_TRUE(senior.hear(1, StepCount::Taken{4, 4}));
  EXPECT_EQ(senior.count.rounds(), 2u);
  EXPECT_EQ(senior.count.due(), Round{1});
  senior.count.report(std::make_shared<const std::vector<float>>(), senior.node.turn);
  EXPECT_FALSE(senior.count.due());
  EXPECT_FALSE(senior.count.is_over());
  EXPECT_TRUE(senior.hear(1, StepCount::Taken{40, 40}));
  EXPECT_EQ(senior.count.rounds(), 3u);  // no more than the run has
  EXPECT_TRUE(senior.count.is_over());
  ASSERT_EQ(senior.told().size(), 4u);  // two rounds that two others hear of
  EXPECT_EQ(senior.told().back().reason, Reason::max_rounds);
}

TEST(StepCount, SamplesTimeAndTargetEndTheRun) {
  Counting samples(0, {.max_rounds = 100, .max_samples = 20});
  EXPECT_TRUE(samples.hear(1, StepCount::Taken{3, 19}));
  EXPECT_FALSE(samples.count.is_over());
  EXPECT_TRUE(samples.hear(2, StepCount::Taken{3, 9}));
  EXPECT_EQ(samples.told().back().reason, Reason::max_samples);
  Counting hours(0, {.max_rounds = 100, .max_hours = 1});
  hours.node.context.now = std::chrono::hours(1);
  EXPECT_TRUE(hours.hear(1, StepCount::Taken{3, 1}));
  EXPECT_EQ(hours.told().back().reason, Reason::max_hours);
  Counting target(0, {.target_accuracy = 0.5, .max_rounds = 100, .lag = 0});
  EXPECT_TRUE(target.hear(1, StepCount::Taken{3, 1}));
  target.count.report(nullptr, target.node.turn);
  EXPECT_TRUE(target.hear(1, StepCount::Taken{6, 1}));
  EXPECT_FALSE(target.count.due());  // one is open, as many as lag allows
  target.count.on_scored(7, {.accuracy = 1}, target.node.turn);
  EXPECT_FALSE(target.count.is_over());
  target.count.on_scored(0, {.accuracy = 0.5}, target.node.turn);
  EXPECT_EQ(target.told().back().reason, Reason::target);
}

TEST(StepCount, AWorkerTellsTheSeniorAndBelievesIt) {
  Counting worker(1, {.max_rounds = 4});
  worker.count.took(8, worker.node.turn);
  ASSERT_EQ(worker.node.done<Send>().size(), 1u);
  EXPECT_EQ(worker.node.done<Send>()[0].to, 0u);
  EXPECT_TRUE(worker.hear(2, StepCount::Taken{9, 9}));  // for a senior, which it is not
  EXPECT_EQ(worker.count.rounds(), 0u);
  EXPECT_TRUE(worker.hear(0, StepCount::RoundsDone{3, Reason::none}));
  EXPECT_TRUE(worker.hear(0, StepCount::RoundsDone{2, Reason::none}));
  EXPECT_EQ(worker.count.rounds(), 3u);
  EXPECT_FALSE(worker.hear(0, StepCount::RoundsDone{5, Reason::none}));
  EXPECT_FALSE(worker.hear(2, StepCount::RoundsDone{3, Reason::target})) << "not the senior";
  Counting senior(0, {.max_rounds = 4});
  EXPECT_FALSE(senior.hear(2, StepCount::RoundsDone{3, Reason::target})) << "it counts itself";
  EXPECT_TRUE(worker.hear(0, StepCount::RoundsDone{3, Reason::target}));
  EXPECT_TRUE(worker.count.is_over());
  for (int unit = 0; unit < 11; ++unit) worker.count.took(8, worker.node.turn);
  EXPECT_TRUE(worker.count.has_taken_all());
  EXPECT_EQ(worker.node.done<Send>().size(), 1u);  // it tells nobody after the end
}

// The senior told one of the others that the run is over, and was lost.
TEST(StepCount, ANewSeniorHearsWhatTheOthersKnowAndTellsAll) {
  Counting next(1, {.max_rounds = 9}), other(2, {.max_rounds = 9});
  EXPECT_TRUE(other.hear(0, StepCount::RoundsDone{5, Reason::target}));
  other.count.took(8, other.node.turn);
  const View before = next.node.view;
  for (Counting* one : {&next, &other}) {
    one->node.view = {.epoch = 1, .live = {1, 2}};
    one->count.on_view(before, one->node.turn);
  }
  EXPECT_FALSE(next.count.is_over());
  for (const Send& send : other.node.done<Send>()) {
    EXPECT_EQ(send.to, 1u);
    EXPECT_TRUE(next.count.on_message(2, send.message, next.node.turn));
  }
  EXPECT_FALSE(next.hear(2, StepCount::RoundsDone{6, Reason::target})) << "once";
  EXPECT_TRUE(next.count.is_over());
  EXPECT_EQ(next.count.rounds(), 5u);
  EXPECT_EQ(next.told().back().reason, Reason::target);
}

// Its units begin at 0 again, and count beside those of before.
TEST(StepCount, WhatOneWhoComesBackHadTakenStaysCounted) {
  Counting senior(0, {.max_rounds = 9});
  EXPECT_TRUE(senior.hear(2, StepCount::Taken{4, 4}));
  EXPECT_EQ(senior.count.rounds(), 1u);
  const auto see = [&](View view) {
    const View before = std::exchange(senior.node.view, std::move(view));
    senior.count.on_view(before, senior.node.turn);
  };
  see({.epoch = 1, .live = {0, 1}});
  see({.epoch = 2, .live = {0, 1, 2}, .returned = {{2, 2}}});
  EXPECT_EQ(senior.node.done<Send>().back().to, 2u);
  EXPECT_EQ(senior.told().back().rounds, 1u);
  EXPECT_TRUE(senior.hear(2, StepCount::Taken{1, 1}));
  EXPECT_EQ(senior.count.rounds(), 1u);
  EXPECT_TRUE(senior.hear(2, StepCount::Taken{2, 2}));
  EXPECT_EQ(senior.count.rounds(), 2u);
}

}  // namespace
}  // namespace longhaul::sync::gossip
