// Invariants:
// mu = 0 is fedavg, bit-identical.
// On lambda/2 (x - a)^2 local steps tend to (lambda a + mu X) / (lambda + mu).
// A deadline cuts the steps of slow sites only: FedProxJob.* in tests/unequal_test.cpp.
#include <gtest/gtest.h>

#include "longhaul/sync/testing/hand_made.h"
#include "longhaul/sync/testing/test_job.h"

namespace longhaul::sync {
namespace {

using testing::learners;
using testing::Quadratic;
using testing::TestJob;

TEST(FedProx, R3_14_WithoutAPullItIsFedAvgBitForBit) {
  const auto all = learners(3, {.start = 1, .rate = 0.1f, .momentum = 0.5f, .buffers = 1});
  TestJob prox({.sync = "fedprox", .settings = {{"mu", {0.0}}}, .learners = all});
  TestJob avg({.sync = "fedavg", .learners = all});
  prox.run();
  avg.run();
  ASSERT_EQ(prox.finished[0], 1);
  EXPECT_EQ(prox.params(0), avg.params(0));
}

// On lambda/2 (x - a)^2 with lambda = 1: the local steps tend to (a + mu X) / (1 + mu).
TEST(FedProx, R3_15_LocalStepsTendToWhereThePullsBalance) {
  for (const double mu : {0.5, 3.0}) {
    auto job = TestJob::ended({.sync = "fedprox",
                               .settings = {{"mu", {mu}}, {"steps", {std::int64_t{200}}}},
                               .learners = {{.target = 2, .slope = 0, .start = 10, .rate = 0.1f}},
                               .stop = {.max_rounds = 2}});
    double x = 10;
    for (int round = 0; round < 2; ++round) x = (2 + mu * x) / (1 + mu);
    EXPECT_NEAR(job.params(0)[0], x, 1e-4);
  }
}

TEST(FedProx, ADeadlineThatHasPassedIsSaved) {
  testing::HandMadeNode node(3, {}, {{"oregon"}}, 0, {}, testing::maker("fedprox", {}));
  node.strategy->on_timer(TimerId{1}, node.turn);
  node.save_and_load();
  node.strategy->on_step({}, node.turn);
  EXPECT_TRUE(node.context.stop_computing);
}

TEST(FedProx, SavingAndLoadingAfterAnyEventChangesNothing) {
  EXPECT_EQ(testing::changed_by_saving(
                {.sync = "fedprox", .learners = learners(2, {.momentum = 0.5f, .buffers = 1})}),
            "");
}

}  // namespace
}  // namespace longhaul::sync
