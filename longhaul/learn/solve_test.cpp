#include "longhaul/learn/solve.h"

#include <gtest/gtest.h>

#include "longhaul/base/testing/result.h"
#include "longhaul/learn/loss.h"
#include "longhaul/learn/testing/learners.h"

namespace longhaul::learn {
namespace {

// The gradient of the whole objective at the solution, by autograd in fp64: another way than the
// solver's.
double gradient_norm(const LearnerParts& parts, std::int64_t outputs, const LocalSolve& work,
                     const std::vector<double>& solution) {
  const Batch shard = gather(*parts.data, parts.shard);
  const auto n = std::int64_t(solution.size());
  const at::Tensor x =
      at::from_blob(const_cast<double*>(solution.data()), {n}, at::kDouble).clone();
  x.set_requires_grad(true);
  const at::Tensor weight = x.narrow(0, 0, n - outputs).view({outputs, -1});
  const at::Tensor z =
      at::linear(shard.input.flatten(1).to(at::kDouble), weight, x.narrow(0, n - outputs, outputs));
  const Task task = parts.data->shape.task;
  const at::Tensor target = has_targets(task) ? shard.target.to(at::kDouble) : shard.target;
  at::Tensor total = batch_loss({z, {}}, target, task);
  for (std::int64_t i = 0; i < n && !work.linear.empty(); ++i)
    total = total + work.linear[std::size_t(i)] * x[i];
  for (const auto& [w, anchor] : work.anchors)
    for (std::int64_t i = 0; i < n; ++i)
      total = total + 0.5 * w * at::square(x[i] - anchor[std::size_t(i)]);
  total.backward();
  return x.grad().norm().item<double>();
}

void expect_solves(const LearnerParts& parts, std::int64_t outputs, std::size_t size) {
  auto learner = good(make_learner(parts));
  LocalSolve work;
  work.linear.resize(size);
  std::vector<double> near(size), far(size);
  for (std::size_t i = 0; i < size; ++i) {
    work.linear[i] = 0.01 * double(i % 5);
    near[i] = 0.1 * double(i % 3);
    far[i] = -0.2 * double(i % 7);
  }
  work.anchors = {{0.3, near}, {0.05, far}};
  work.tolerance = 1e-12;
  auto result = good((*learner)->step(work));
  EXPECT_EQ(result->samples, parts.shard.size());
  ASSERT_EQ(result->solution.size(), size);
  EXPECT_LT(gradient_norm(parts, outputs, work, result->solution), 1e-10);
}

TEST(LocalSolve, EndsWhereTheGradientOfTheWholeObjectiveIsZero) {
  expect_solves(testing::parts_for(testing::plane(6, 200), "linear"), 1, 7);
  expect_solves(testing::parts_for(testing::patterns({6}, 4, 200), "logistic"), 4, 28);
  expect_solves(testing::parts_for(testing::patterns({6}, 2, 200), "logistic"), 1, 7);
  expect_solves(testing::parts_for(testing::half_planes(6, 3, 200), "logistic"), 3, 21);
}

// The sum over n samples is n times their mean: with the other terms n times as large, the minimum
// is the same.
TEST(LocalSolve, OfTheSumIsThatOfTheMeanScaled) {
  for (const bool bias : {true, false}) {
    LearnerParts parts = testing::parts_for(testing::plane(6, 50), "linear");
    parts.model.bias = bias;
    const std::size_t size = bias ? 7 : 6;
    auto learner = good(make_learner(parts));
    ASSERT_EQ((*learner)->layout()->size(), size);
    LocalSolve work{std::vector<double>(size, 0.1), {{0.2, std::vector<double>(size, 1.0)}}, 1e-12};
    const auto mean = (*learner)->step(work);
    work.summed = true;
    work.linear.assign(size, 50 * 0.1);
    work.anchors[0].first *= 50;
    const auto sum = (*learner)->step(work);
    ASSERT_TRUE(mean && sum);
    for (std::size_t i = 0; i < size; ++i) EXPECT_NEAR(sum->solution[i], mean->solution[i], 1e-10);
    EXPECT_NEAR(sum->loss, 50 * mean->loss, 1e-9);
  }
}

// Against differences of the loss.
TEST(FullGradient, IsTheSlopeOfTheLossOfTheWholeShard) {
  for (const char* kind : {"linear", "logistic"}) {
    const bool linear = std::string_view(kind) == "linear";
    auto learner = good(make_learner(
        testing::parts_for(linear ? testing::plane(3, 40) : testing::patterns({3}, 2, 40), kind)));
    const std::vector<double> at = {0.3, -0.2, 0.5, 0.1};
    const auto here = good((*learner)->step(FullGradient{at, true}));
    EXPECT_EQ(here->samples, 40u);
    for (std::size_t i = 0; i < at.size(); ++i) {
      std::vector<double> up = at, down = at;
      up[i] += 1e-5;
      down[i] -= 1e-5;
      const double slope = ((*learner)->step(FullGradient{up, true})->loss -
                            (*learner)->step(FullGradient{down, true})->loss) /
                           2e-5;
      EXPECT_NEAR(here->solution[i], slope, 1e-5 * std::max(1.0, std::abs(slope))) << kind;
    }
    EXPECT_NEAR((*learner)->step(FullGradient{at, false})->loss, here->loss / 40, 1e-12);
  }
}

TEST(LocalSolve, LeavesTheLearnerAsItWas) {
  auto learner = good(make_learner(testing::parts_for(testing::plane(6, 50), "linear")));
  Archive before, after;
  (*learner)->state(before);
  ASSERT_TRUE((*learner)->step(LocalSolve{}));
  (*learner)->state(after);
  EXPECT_EQ(before.take(), after.take());
}

TEST(LocalSolve, SaysWhatItCannotSolve) {
  LearnerParts mlp = testing::parts_for(testing::patterns({6}, 4, 20), "mlp");
  auto learner = good(make_learner(mlp));
  auto refused = (*learner)->step(LocalSolve{});
  ASSERT_FALSE(refused);
  EXPECT_TRUE(says(refused, "\"mlp\""));

  auto large = good(make_learner(testing::parts_for(testing::patterns({1000}, 5, 20), "logistic")));
  refused = (*large)->step(LocalSolve{});
  ASSERT_FALSE(refused);
  EXPECT_TRUE(says(refused, "too large"));

  // Two samples of two classes can be told apart ever better: there is no minimum.
  auto apart = testing::parts_for(testing::patterns({6}, 2, 8), "logistic");
  auto separable = good(make_learner(apart));
  refused = (*separable)->step(LocalSolve{.linear = {}, .anchors = {}, .tolerance = 0});
  ASSERT_FALSE(refused);
  EXPECT_TRUE(says(refused, "100 Newton iterations"));
}

}  // namespace
}  // namespace longhaul::learn
