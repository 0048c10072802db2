#include "longhaul/learn/scorer.h"

#include <gtest/gtest.h>

#include <thread>

#include "longhaul/base/testing/effort.h"
#include "longhaul/learn/testing/learners.h"

namespace longhaul::learn {
namespace {

TEST(Scorer, ScoresEverySampleOnce) {
  const auto data = testing::patterns({20}, 4, 1234);
  LearnerParts parts = testing::parts_for(data, "mlp");
  parts.batch = 1234;  // one batch holds all: the learner's own score is the answer
  auto learner = make_learner(parts);
  ASSERT_TRUE(learner);
  for (int i = 0; i < 20; ++i) ASSERT_TRUE((*learner)->step(LocalStep{}));
  auto scorer = make_scorer(parts.model, data);
  ASSERT_TRUE(scorer) << scorer.error().what;
  EXPECT_EQ((*scorer)->parts(), 3u);
  auto evaluation = (*scorer)->score((*learner)->params());
  ASSERT_TRUE(evaluation);
  auto whole = (*learner)->step(Score{});
  ASSERT_TRUE(whole);
  EXPECT_EQ(evaluation->samples, 1234u);
  EXPECT_EQ(evaluation->accuracy, whole->accuracy);
  EXPECT_NEAR(evaluation->loss, whole->loss, 1e-6);
  EXPECT_GT(evaluation->accuracy, 0.5);
}

TEST(Scorer, AnswersTheSameWithAnyNumberOfThreads) {
  const auto data = testing::patterns({1, 28, 28}, 10, longhaul::testing::kGate ? 600 : 1700);
  LearnerParts parts = testing::parts_for(data, "lenet");
  auto model = initial_model(parts.model, data->shape, 3);
  ASSERT_TRUE(model);
  auto scorer = make_scorer(parts.model, data);
  ASSERT_TRUE(scorer);
  auto one = (*scorer)->score(*model, 1);
  ASSERT_TRUE(one);
  for (unsigned threads : {2u, 5u}) {
    auto more = (*scorer)->score(*model, threads);
    ASSERT_TRUE(more);
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
  auto scorer = make_scorer({.kind = "linear"}, data);
  ASSERT_TRUE(scorer);
  auto evaluation = (*scorer)->score(zero);
  ASSERT_TRUE(evaluation);
  double half_square = 0;
  for (float target : data->targets) half_square += 0.5 * double(target) * target / 100;
  EXPECT_NEAR(evaluation->loss, half_square, 1e-6);
  EXPECT_EQ(evaluation->accuracy, 0);
}

TEST(Scorer, SaysWhatItCannotScore) {
  const auto data = testing::patterns({20}, 4, 100);
  EXPECT_FALSE(make_scorer({.kind = "phantom"}, data));
  EXPECT_FALSE(make_scorer({.kind = "lenet"}, data));
  auto scorer = make_scorer({.kind = "logistic"}, data);
  ASSERT_TRUE(scorer);
  auto wrong = (*scorer)->score(std::vector<float>(5));
  ASSERT_FALSE(wrong);
  EXPECT_NE(wrong.error().what.find("5 numbers"), std::string::npos) << wrong.error().what;
}

}  // namespace
}  // namespace longhaul::learn
