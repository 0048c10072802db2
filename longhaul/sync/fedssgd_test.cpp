// Rounds of FedSSGD on whole nodes without a clock; with times: tests/unequal_test.cpp.
//
// Invariants:
// - Sites count by their samples.
// - With equal sites step is bsp, and without a clock semi is fedavg, bit-identical.
// - Delta = steps max_j c_j is the time of the slowest worker's steps: FedSsgdJob.* in
//   tests/unequal_test.cpp.
#include <gtest/gtest.h>

#include "longhaul/sync/testing/test_job.h"

namespace longhaul::sync {
namespace {

using testing::learners;
using testing::Quadratic;
using testing::TestJob;
using namespace std::string_literals;

TestJob::Config fedssgd_job(std::string reading, std::vector<Quadratic::Config> learners) {
  return {.sync = "fedssgd",
          .settings = {{"reading", {std::move(reading)}}, {"steps", {std::int64_t{3}}}},
          .learners = std::move(learners),
          .stop = {.max_rounds = 6}};
}

TEST(FedSsgd, SitesCountByTheirSamples) {
  for (const char* reading : {"step", "semi"}) {
    std::vector<Quadratic::Config> two(2, {.target = 8, .slope = 0, .start = 8, .rate = 0.5f});
    two[1].target = 9;  // whose update is 1/2 of what is left
    two[1].samples = 3;
    TestJob::Config config = fedssgd_job(reading, two);
    config.stop.max_rounds = 1;
    auto job = TestJob::ended(config);
    const double moved = reading == "step"s ? 0.5 : 1 - 0.5 * 0.5 * 0.5;
    for (Rank rank = 0; rank < 2; ++rank)
      EXPECT_NEAR(job.params(rank)[0] - 8, 0.75 * moved, 1e-6) << reading;
  }
}

TEST(FedSsgd, WithEqualSitesItIsBspByStepAndFedAvgByTime) {
  const auto equal = learners(3, {.start = 1, .rate = 0.1f, .samples = 4, .buffers = 2});
  TestJob::Config fedavg{.sync = "fedavg",
                         .settings = {{"steps", {std::int64_t{3}}}, {"reset_optimizer", {false}}},
                         .learners = equal,
                         .stop = {.max_rounds = 6}};
  TestJob step(fedssgd_job("step", equal)), bsp({.learners = equal, .stop = {.max_rounds = 6}}),
      semi(fedssgd_job("semi", equal)), local(fedavg);
  for (TestJob* job : {&step, &bsp, &semi, &local}) job->run();
  for (Rank rank = 0; rank < 3; ++rank) {
    ASSERT_EQ(step.finished[rank] + semi.finished[rank], 2);
    EXPECT_EQ(step.params(rank), bsp.params(rank));
    EXPECT_EQ(semi.params(rank), local.params(rank)) << "without a clock all take three steps";
  }
}

TEST(FedSsgd, TheFirstRoundFitsTheBound) {
  for (const std::int64_t steps : {10, 20})
    EXPECT_EQ(bool(testing::status_of("fedssgd", {testing::set_name("reading", "semi"),
                                                  testing::set_count("steps", steps),
                                                  testing::set_count("max_steps", 10)})),
              steps == 10);
}

TEST(FedSsgd, SavingAndLoadingAfterAnyEventChangesNothing) {
  for (const char* reading : {"step", "semi"})
    EXPECT_EQ(testing::changed_by_saving(
                  fedssgd_job(reading, learners(3, {.momentum = 0.5f, .buffers = 1}))),
              "");
}

}  // namespace
}  // namespace longhaul::sync
