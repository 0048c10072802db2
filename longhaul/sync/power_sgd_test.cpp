// Invariants:
// Without factored tensors it is bsp, bit for bit.
// Matrices of rank r are exact after one exchange; power/low_rank_test.cpp.
// Factors of a mean are means of factors: power/low_rank_test.cpp.
// With error feedback, rank 1 reaches the minimum of a quadratic.
// All models are bit-identical, over every overlay: tests/conformance_test.cpp.
#include <gtest/gtest.h>

#include "longhaul/sync/testing/test_job.h"

namespace longhaul::sync {
namespace {

using testing::Quadratic;
using testing::TestJob;

// 24 parameters: a matrix of 6 x 4, and behind it buffers.
std::vector<Quadratic::Config> power_learners(std::uint32_t n, std::uint64_t buffers = 0) {
  auto all = testing::learners(n, {.start = 1, .rate = 0.1f, .momentum = 0.5f, .buffers = buffers});
  for (std::uint32_t k = 0; k < n; ++k) {
    all[k].samples = k + 1;
    all[k].slope = 0.1f * float(k + 1);
    all[k].columns = 4;
  }
  return all;
}

TestJob::Config power_job(std::uint32_t n, std::int64_t rank, Round rounds,
                          std::uint64_t buffers = 0) {
  return {.sync = "power_sgd",
          .settings = {{"rank", {rank}}},
          .learners = power_learners(n, buffers),
          .size = 24 + buffers,
          .stop = {.max_rounds = rounds}};
}

// where nothing is smaller as factors, it is bsp bit for bit.
TEST(PowerSgd, R3_60_OfFullRankIsBspBitForBit) {
  TestJob::Config config = power_job(4, 3, 12, 2);  // 3 x (6 + 4) is no less than 24
  TestJob factored(config);
  config.sync = "bsp";
  config.settings = {};
  TestJob whole(config);
  factored.run();
  whole.run();
  ASSERT_EQ(factored.finished.size(), 4u);
  EXPECT_EQ(factored.params(3), whole.params(3));
}

// gradients of rank r are what bsp averages. Targets that grow with the element, and equal
// starts, make gradients of rank 2.
TEST(PowerSgd, R3_61_GradientsOfItsRankAreThoseOfBsp) {
  TestJob::Config config = power_job(3, 2, 15);
  TestJob factored(config);
  config.sync = "bsp";
  config.settings = {};
  TestJob whole(config);
  factored.run();
  whole.run();
  ASSERT_EQ(factored.finished.size(), 3u);
  testing::expect_near(factored.params(1), whole.params(1), 1e-3);
}

// what factors of rank 1 lose comes later, so that the same minimum is reached.
TEST(PowerSgd, R3_63_ErrorFeedbackReachesTheMinimumOfTheMean) {
  auto job = TestJob::ended(power_job(3, 1, 300));
  const auto learners = power_learners(3);
  for (std::size_t i = 0; i < 24; ++i) {
    double target = 0;
    for (std::uint32_t k = 0; k < 3; ++k)
      target +=
          (k + 1) / 6.0 * (double(learners[k].target) + double(i) * double(learners[k].slope));
    EXPECT_NEAR(job.params(0)[i], target, 0.01) << i;
  }
}

TEST(PowerSgd, ALossBetweenTheTwoMeansIsSurvived) {
  for (int events = 1; events < 60; events += 3) {
    TestJob job(power_job(3, 1, 5));
    int left = events;
    job.after_event = [&] {
      if (--left == 0) job.crash(1);
    };
    job.run();
    ASSERT_EQ(job.finished.size(), 2u) << events;
    EXPECT_EQ(job.params(0), job.params(2)) << events;
  }
}

TEST(PowerSgd, R3_64_AllModelsAreBitEqual) {
  auto job = TestJob::ended(power_job(5, 1, 7, 3));
  ASSERT_EQ(job.finished.size(), 5u);
  for (Rank rank = 1; rank < 5; ++rank) EXPECT_EQ(job.params(rank), job.params(0));
}

TEST(PowerSgd, SavingAndLoadingAfterAnyEventChangesNothing) {
  for (const bool warm : {true, false}) {
    TestJob::Config config = power_job(3, 1, 4, 2);
    config.settings.push_back({"warm_start", {warm}});
    EXPECT_EQ(testing::changed_by_saving(config), "") << warm;
  }
}

}  // namespace
}  // namespace longhaul::sync
