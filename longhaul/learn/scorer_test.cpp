#include "longhaul/learn/scorer.h"

#include <gtest/gtest.h>

#include <thread>

#include "longhaul/base/testing/effort.h"
#include "longhaul/base/testing/result.h"
#include "longhaul/learn/testing/learners.h"

namespace longhaul::learn {
namespace {

TEST(Scorer, ScoresEverySampleOnce) {
  const auto data = testing::patterns({20}, 4, 1234);
  LearnerParts parts = testing::parts_for(data, "mlp");
  parts.batch = 1234;  // one batch holds all: the learner's own score is the answer
  auto learner = good(make_learner(parts));
  for (int i = 0; i < 20; ++i) ASSERT_TRUE((*learner)->step(LocalStep{}));
  auto scorer = good(make_scorer(parts.model, data));
  EXPECT_EQ((*scorer)->parts(), 3u);
  auto evaluation = good((*scorer)->score((*learner)->params()));
  auto whole = good((*learner)->step(Score{}));
  EXPECT_EQ(evaluation->samples, 1234u);
  EXPECT_EQ(evaluation->accuracy, whole->accuracy);
  EXPECT_NEAR(evaluation->loss, whole->loss, 1e-6);
  EXPECT_GT(evaluation->accuracy, 0.5);
}

TEST(Scorer, AnswersTheSameWithAnyNumberOfThreads) {
  const auto data = testing::patterns({1, 28, 28}, 10, longhaul::testing::kGate ? 600 : 1700);
  LearnerParts parts = testing::parts_for(data, "lenet");
  auto model = good(initial_model(parts.model, data->shape, 3));
  auto scorer = good(make_scorer(parts.model, data));
  auto one = good((*scorer)->score(*model, 1));
  for (unsigned threads : {2u, 5u}) {
    auto more = good((*scorer)->score(*model, threads));
    EXPECT_EQ(more->loss, one->loss);
    EXPECT_EQ(more->accuracy, one->accuracy);
  }
}

TEST(Scorer, TwoModelsAtTheSameTimeDoNotMix) {
  const auto data = testing::patterns({20}, 4, longhaul::testing::kGate ? 1000 : 3000);
  const ModelConfig config{.kind = "mlp"};
  auto scorer = make_scorer(config, data);
  auto a = initial_model(config, data->shape, 1), b = initial_model(config, data->shape, 2);
  ASSERT_TRUE(scorer && a && b);
  const double loss_a = (*scorer)->score(*a)->loss, loss_b = (*scorer)->score(*b)->loss;
  EXPECT_NE(loss_a, loss_b);
  std::jthread other([&] {
    for (int i = 0; i < 10; ++i) EXPECT_EQ((*scorer)->score(*a)->loss, loss_a);
  });
  for (int i = 0; i < 10; ++i) EXPECT_EQ((*scorer)->score(*b)->loss, loss_b);
}

TEST(Scorer, RegressionHasALossAndNoAccuracy) {
  const auto data = testing::plane(5, 100);
  const std::vector<float> zero(6, 0.f);
  auto scorer = good(make_scorer({.kind = "linear"}, data));
  auto evaluation = good((*scorer)->score(zero));
  double half_square = 0;
  for (float target : data->targets) half_square += 0.5 * double(target) * target / 100;
  EXPECT_NEAR(evaluation->loss, half_square, 1e-6);
  EXPECT_FALSE(evaluation->accuracy);
}

TEST(Scorer, SaysWhatItCannotScore) {
  const auto data = testing::patterns({20}, 4, 100);
  EXPECT_FALSE(make_scorer({.kind = "phantom"}, data));
  EXPECT_FALSE(make_scorer({.kind = "lenet"}, data));
  auto scorer = good(make_scorer({.kind = "logistic"}, data));
  EXPECT_TRUE(says((*scorer)->score(std::vector<float>(5)), "5 numbers"));
}

}  // namespace
}  // namespace longhaul::learn
