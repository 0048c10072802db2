#include "longhaul/sim/phantom.h"

#include <gtest/gtest.h>

#include "longhaul/base/testing/result.h"

namespace longhaul::sim {
namespace {

TEST(Phantom, CountsBatchesAndEpochsAndHoldsNoNumbers) {
  PhantomLearner learner(Layout::flat(1'000'000), 32, 100);
  EXPECT_EQ(learner.layout()->size(), 1'000'000u);
  EXPECT_TRUE(learner.params().empty() && learner.grads().empty());
  std::vector<std::uint64_t> samples;
  std::vector<bool> exhausted;
  for (int i = 0; i < 5; ++i) {
    const auto result = good(learner.step(LocalStep{}));
    samples.push_back(result->samples);
    exhausted.push_back(result->exhausted);
    EXPECT_EQ(result->shard_size, 100u);
  }
  EXPECT_EQ(samples, (std::vector<std::uint64_t>{32, 32, 32, 4, 32}));
  EXPECT_EQ(exhausted, (std::vector{false, false, false, true, false}));
}

TEST(Phantom, ScratchStepsAndGivenGradientsReadNoData) {
  PhantomLearner learner(Layout::flat(10), 5, 10);
  EXPECT_EQ(learner.step(ScratchStep{})->samples, 5u);
  EXPECT_EQ(learner.step(ApplyGradient{})->samples, 0u);
  EXPECT_FALSE(learner.step(LocalStep{})->exhausted);
  EXPECT_TRUE(learner.step(Gradient{})->exhausted);
}

TEST(Phantom, SolvesWithTheWholeShardAndWithoutNumbers) {
  PhantomLearner learner(Layout::flat(10), 5, 12);
  for (const Work& work : {Work(LocalSolve{}), Work(FullGradient{})}) {
    const auto result = good(learner.step(work));
    EXPECT_EQ(result->samples, 12u);
    EXPECT_TRUE(result->solution.empty());
  }
}

TEST(Phantom, RefusesWorkThatAsksForNumbers) {
  PhantomLearner learner(Layout::flat(10), 5, 10);
  EXPECT_FALSE(learner.step(Infer{}));
  const auto factors = good(learner.step(SufficientFactors{{0}}));
  EXPECT_GT(factors->samples, 0u);
  EXPECT_TRUE(factors->factors.empty());
}

TEST(Phantom, RefusesWhatTheLearnersThatItStandsForCannotDo) {
  PhantomLearner learner(Layout::flat(10), 5, 10,
                         [](std::string_view work) { return work != "gradient"; });
  EXPECT_TRUE(learner.step(LocalStep{}));
  EXPECT_TRUE(says(learner.step(Gradient{}), "cannot do: gradient"));
}

}  // namespace
}  // namespace longhaul::sim
