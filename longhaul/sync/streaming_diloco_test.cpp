// Invariants:
// One fragment, no delay: diloco bit for bit, with either rule.
// An exchange is 1/fragments of the model, one at a time: tests/costs_test.cpp, with the
//         step times: eight sites on 100 Mbit/s and 50 ms, 40 MB and steps of 0.2 s take 0.200 s a
//         step with fragments = 10, delay = 4 (diloco with 500 steps 0.211 s, bsp 5.9 s).
// `delta`: a site's steps sum to its contributions and x - X.
// X contains no later progress.
#include <gtest/gtest.h>

#include "longhaul/base/testing/result.h"
#include "longhaul/sync/testing/test_job.h"

namespace longhaul::sync {
namespace {

using testing::learners;
using testing::plain_job;
using testing::Quadratic;
using testing::TestJob;
using namespace std::string_literals;

constexpr std::uint64_t kSize = 8;

std::vector<Setting> streaming(std::int64_t steps, std::int64_t fragments, std::int64_t delay,
                               std::string write_back = "delta", double alpha = 1) {
  return {{"steps", {steps}},
          {"fragments", {fragments}},
          {"delay", {delay}},
          {"write_back", {std::move(write_back)}},
          {"alpha", {alpha}}};
}

std::vector<Setting> nesterov() { return {{"kind", {"nesterov"s}}, {"rate", {0.7}}}; }

// A learner whose every step moves each element by `way`.
Quadratic::Config walker(float way) {
  return {.target = 1e8f, .slope = 0, .start = 0, .rate = way * 1e-8f};
}

TEST(StreamingDiLoCo, R3_25_OfOneFragmentWithoutDelayIsDiLoCo) {
  for (const char* write_back : {"delta", "interpolate"}) {
    const auto equal = learners(3, {.start = 1, .rate = 0.1f, .momentum = 0.5f, .buffers = 2});
    TestJob::Config config =
        plain_job("streaming_diloco", streaming(3, 1, 0, write_back), equal, 7);
    config.outer = nesterov();
    auto streams = TestJob::ended(config);
    config.sync = "diloco";
    config.settings = {{"steps", {std::int64_t{3}}}};
    auto whole = TestJob::ended(config);
    for (Rank rank = 0; rank < 3; ++rank) {
      ASSERT_EQ(streams.finished[rank], 1);
      EXPECT_EQ(streams.params(rank), whole.params(rank)) << write_back;
    }
  }
}

// X_f is the mean of all that was walked up to the last contribution of f: what is walked while
// the mean is under way stays whole.
TEST(StreamingDiLoCo, R3_27_DeltaLosesNoStep) {
  for (const std::int64_t delay : {0, 1, 3, 4}) {
    auto job = TestJob::ended(plain_job("streaming_diloco", streaming(4, 2, delay),
                                        {walker(1), walker(2), walker(6)}, 7));
    for (Rank rank = 0; rank < 3; ++rank) {
      const auto x = job.params(rank);
      EXPECT_NEAR(x[0], 3 * 7 * 4, 1e-3) << delay;          // fragment 0: in rounds 0, 2, 4, 6
      EXPECT_NEAR(x[kSize - 1], 3 * 6 * 4, 1e-3) << delay;  // fragment 1: in rounds 1, 3, 5
    }
  }
}

// With alpha = 1 a fragment begins anew with the common one: `delay` steps of each round are lost.
TEST(StreamingDiLoCo, InterpolateLosesWhatWasLearnedMeanwhile) {
  auto job = TestJob::ended(plain_job("streaming_diloco", streaming(4, 2, 3, "interpolate"),
                                      {walker(1), walker(2), walker(6)}, 7));
  EXPECT_NEAR(job.params(0)[0], 3 * (7 * 4 - 3 * 3), 1e-3);  // three means came before the last
  EXPECT_NEAR(job.params(0)[kSize - 1], 3 * (6 * 4 - 2 * 3), 1e-3);
}

// Until the score of the last round is known, steps go on. They are not in the model, of which the
// buffers are a part.
TEST(StreamingDiLoCo, StepsAfterTheLastMeanAreNotInTheModel) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    std::vector<float> scored;
    TestJob job({.sync = "streaming_diloco",
                 .settings = streaming(4, 2, 1),
                 .learners = learners(3, {.start = 1, .rate = 0.1f, .buffers = 2}),
                 .stop = {.max_rounds = 3, .lag = 0},
                 .seed = seed,
                 .score = [&](const std::vector<float>& model) {
                   scored = model;
                   return Evaluation{.loss = 1, .samples = 1};
                 }});
    job.run();
    for (Rank rank = 0; rank < 3; ++rank) {
      ASSERT_EQ(job.finished[rank], 1);
      EXPECT_EQ(job.params(rank), scored) << rank;
    }
  }
}

TEST(StreamingDiLoCo, AModelThatFragmentsDoNotDivideIsWhole) {
  auto job =
      TestJob::ended(plain_job("streaming_diloco", streaming(1, 5, 1), {walker(1), walker(3)}, 5));
  float before = 0;
  for (const float x : job.params(1)) {
    EXPECT_GE(x, std::max(before, 1.999f));
    before = x;
  }
  EXPECT_NEAR(before, 2 * 5, 1e-3);
}

TEST(StreamingDiLoCo, RefusesADelayAboveTheStepsAndMoreFragmentsThanParameters) {
  EXPECT_TRUE(says(testing::status_of("streaming_diloco", streaming(2, 4, 3)), "delay"));
  auto many = TestJob::ended(plain_job("streaming_diloco", streaming(1, 9, 1), {walker(1)}, 5));
  EXPECT_TRUE(says(many.failures[0], "fragments"));
}

TEST(StreamingDiLoCo, SavingAndLoadingAfterAnyEventChangesNothing) {
  TestJob::Config config = plain_job("streaming_diloco", streaming(3, 2, 1),
                                     learners(3, {.momentum = 0.5f, .buffers = 2}), 6);
  config.outer = nesterov();
  EXPECT_EQ(testing::changed_by_saving(config), "");
}

TEST(StreamingDiLoCo, TheInnerOptimiserKeepsItsState) {
  const Quadratic::Config learner{.start = 1, .rate = 0.1f, .momentum = 0.9f};
  auto job = TestJob::ended(plain_job("streaming_diloco", streaming(3, 1, 2), {learner}, 3));
  Quadratic plain(kSize, learner);
  for (int i = 0; i < 9; ++i) ASSERT_TRUE(plain.step(LocalStep{}));
  for (std::size_t i = 0; i < kSize; ++i) EXPECT_NEAR(job.params(0)[i], plain.params()[i], 1e-6);
}

}  // namespace
}  // namespace longhaul::sync
