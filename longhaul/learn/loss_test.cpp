#include "longhaul/learn/loss.h"

#include <gtest/gtest.h>

#include <cmath>

#include "longhaul/base/testing/result.h"
#include "longhaul/learn/scorer.h"
#include "longhaul/learn/testing/learners.h"

namespace longhaul::learn {
namespace {

using testing::make;
using testing::take;

double log_sum_exp(const at::Tensor& row) { return at::logsumexp(row, {0}).item<double>(); }

// As torch.nn.CrossEntropyLoss(weight=...) says it: sum w_y l / sum w_y.
TEST(Loss, ClassWeightsAreThoseOfTorch) {
  const at::Tensor logits = at::sin(at::arange(12, at::kFloat)).view({4, 3});
  const at::Tensor target = at::tensor({2, 0, 2, 1}, at::kLong);
  const at::Tensor weights = at::tensor({0.5, 4.0, 1.5}, at::kFloat);
  double sum = 0, all = 0;
  for (std::int64_t i = 0; i < 4; ++i) {
    const auto y = target[i].item<std::int64_t>();
    const double w = weights[y].item<double>();
    sum += w * (log_sum_exp(logits[i]) - logits[i][y].item<double>());
    all += w;
  }
  const at::Tensor loss = batch_loss({logits, {}}, target, Task::classification, weights);
  EXPECT_NEAR(loss.item<double>(), sum / all, 1e-6);
}

// One logit z of class 1 is the two logits 0 and z.
TEST(Loss, OfOneLogitWeighsTheTwoClasses) {
  const at::Tensor z = at::tensor({0.3, -1.2, 2.0, 0.1, -0.4}, at::kFloat).unsqueeze(1);
  const at::Tensor target = at::tensor({1, 0, 0, 1, 1}, at::kLong);
  const at::Tensor weights = at::tensor({3.0, 0.7}, at::kFloat);
  const at::Tensor both = at::cat({at::zeros_like(z), z}, 1);
  for (const at::Tensor& w : {at::Tensor(), weights})
    EXPECT_NEAR(batch_loss({z, {}}, target, Task::classification, w).item<double>(),
                batch_loss({both, {}}, target, Task::classification, w).item<double>(), 1e-6);
}

TEST(Loss, OfLabelsIsTheMeanOverSamplesAndLabels) {
  const at::Tensor z = at::tensor({0.5, -1.0, 2.0, 0.0, 3.0, -0.5}, at::kFloat).view({2, 3});
  const at::Tensor y = at::tensor({1, 0, 0, 1, 1, 1}, at::kFloat).view({2, 3});
  double sum = 0;
  for (std::int64_t i = 0; i < 6; ++i) {
    const double p = 1 / (1 + std::exp(-z.flatten()[i].item<double>()));
    sum -= std::log(y.flatten()[i].item<double>() == 1 ? p : 1 - p);
  }
  EXPECT_NEAR(batch_loss({z, {}}, y, Task::multilabel).item<double>(), sum / 6, 1e-6);
  EXPECT_EQ(predictions(y, Task::multilabel), 6u);
  EXPECT_EQ(batch_correct({z, {}}, y, Task::multilabel), 3u);  // 0.5, -1 and 3
}

TEST(Loss, ModelsLearnSeveralLabels) {
  const auto data = testing::half_planes(6, 3, 700);
  for (const char* kind : {"logistic", "mlp"}) {
    LearnerParts parts = testing::parts_for(data, kind);
    parts.optimizer.rate = 1;
    auto learner = make(parts);
    auto scorer = good(make_scorer(parts.model, data));
    for (int i = 0; i < 40; ++i) take(*learner, LocalStep{});
    const auto score = good((*scorer)->score(learner->params()));
    EXPECT_EQ(score->samples, 2100u);  // labels
    EXPECT_GT(score->accuracy, 0.85) << kind;
    EXPECT_LT(score->loss, 0.4) << kind;
  }
}

// A step on two copies of the samples of class 1 is one with twice its weight. Scores know none.
TEST(Loss, AWeightOfTwoIsASampleTwice) {
  const auto data = testing::patterns({5}, 3, 40);
  std::vector<std::uint32_t> rows;
  for (std::uint32_t i = 0; i < data->size(); ++i)
    rows.insert(rows.end(), data->labels[i] == 1 ? 2 : 1, i);
  LearnerParts twice =
      testing::parts_for(std::make_shared<const DataSet>(take_rows(*data, rows)), "logistic");
  LearnerParts weighted = testing::parts_for(data, "logistic");
  weighted.class_weights = {1, 2, 1};
  twice.batch = weighted.batch = 1000;
  auto one = make(twice), other = make(weighted);
  const double zero = take(*other, Score{}).loss;
  EXPECT_NEAR(zero, std::log(3.0), 1e-6);
  for (int i = 0; i < 5; ++i)
    EXPECT_NEAR(take(*one, LocalStep{}).loss, take(*other, LocalStep{}).loss, 1e-5);
  for (std::size_t i = 0; i < one->params().size(); ++i)
    EXPECT_NEAR(one->params()[i], other->params()[i], 1e-5);
  EXPECT_TRUE(says(other->step(LocalSolve{}), "[data] class_weights"));
}

}  // namespace
}  // namespace longhaul::learn
