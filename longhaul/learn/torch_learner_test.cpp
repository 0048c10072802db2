// Invariants:
//   parameters stay views into the flat vectors
//   steps are bit-identical to a plain torch loop, for every optimiser and model
//   Gradient and ApplyGradient are a LocalStep
//   a mirror of a device, resuming, torn checkpoints, proximal and scratch steps, threads, factors
// In other files:
//   device_test.cpp: gradients, determinism, checkpoints and scores on a GPU, for ten models
//   solve_test.cpp: the gradient at the solution, by autograd
//   loss_test.cpp: torch's formulas
//   models/: layouts, initial values, tables
//   scorer_test.cpp, script_test.cpp, gpt_test.cpp, muon_test.cpp, model_file_test.cpp,
//   threads_test.cpp
#include "longhaul/learn/torch_learner.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include "longhaul/base/testing/effort.h"
#include "longhaul/base/testing/result.h"
#include "longhaul/core/kept_values.h"
#include "longhaul/learn/data/load.h"
#include "longhaul/learn/testing/bare_loop.h"
#include "longhaul/learn/testing/learners.h"

namespace longhaul::learn {
namespace {

using longhaul::testing::kGate;
using testing::BareLoop;
using testing::load;
using testing::make;
using testing::parts_for;
using testing::patterns;
using testing::save;
using testing::take;

OptimizerConfig sgd(double rate, double momentum = 0) {
  OptimizerConfig config{.rate = rate, .momentum = momentum};
  return config;
}

std::vector<float> copy(std::span<const float> values) { return {values.begin(), values.end()}; }

LearnerParts lenet_parts(OptimizerConfig optimizer = sgd(0.05, 0.9)) {
  LearnerParts parts = parts_for(patterns({1, 28, 28}, 10, 200), "lenet", std::move(optimizer));
  parts.batch = 16;
  return parts;
}

LearnerParts mlp_parts(OptimizerConfig optimizer = sgd(0.05, 0.9)) {
  LearnerParts parts = parts_for(patterns({20}, 4, 100), "mlp", std::move(optimizer));
  parts.model.hidden = {16};
  parts.batch = 8;
  return parts;
}

LearnerParts batch_norm_parts() {
  LearnerParts parts = parts_for(patterns({3, 8, 8}, 3, 48), "resnet20", sgd(0.01));
  parts.model.norm = "batch";
  parts.batch = 8;
  return parts;
}

TEST(TorchLearner, ParametersStayViewsIntoTheFlatVectors) {
  TorchLearner* learner = nullptr;
  auto owner = make(lenet_parts());
  learner = dynamic_cast<TorchLearner*>(owner.get());
  ASSERT_TRUE(learner);
  const float* const where = learner->params().data();
  for (int i = 0; i < 3; ++i) take(*learner, LocalStep{});
  EXPECT_EQ(learner->params().data(), where);
  if (learner->flat().params().is_cpu())
    EXPECT_EQ(learner->flat().params().data_ptr<float>(), where);
  EXPECT_EQ(learner->grads().size(), learner->params().size());
  // What is written into the flat vector is what the model computes with.
  const double before = take(*learner, Score{}).loss;
  std::fill(learner->params().begin(), learner->params().end(), 0.f);
  const double after = take(*learner, Score{}).loss;
  EXPECT_NE(before, after);
  EXPECT_FLOAT_EQ(float(after), std::log(10.f));
}

TEST(TorchLearner, StepsEqualAPlainTorchLoopBitForBit) {
  OptimizerConfig adam{.kind = "adam", .rate = 1e-3};
  OptimizerConfig adamw = adam;
  adamw.kind = "adamw";
  OptimizerConfig adagrad{.kind = "adagrad", .rate = 0.02};
  OptimizerConfig nesterov = sgd(0.02, 0.9);
  nesterov.nesterov = true;
  nesterov.weight_decay = 1e-3;
  for (const OptimizerConfig& optimizer :
       {sgd(0.05), sgd(0.05, 0.9), nesterov, adagrad, adam, adamw}) {
    const LearnerParts parts = lenet_parts(optimizer);
    auto learner = make(parts);
    BareLoop loop(parts);
    for (int i = 0; i < (kGate ? 2 : 15); ++i)
      EXPECT_EQ(take(*learner, LocalStep{}).loss, loop.step());
    EXPECT_EQ(copy(learner->params()), loop.params()) << optimizer.kind;
  }
}

LearnerParts click_parts() {
  OptimizerConfig adagrad{.kind = "adagrad", .rate = 0.05};
  LearnerParts parts = parts_for(
      load_data({.kind = "clicks", .samples = 6000, .click_fields = 6, .values = 20})->train,
      "clicks", adagrad);
  parts.model.factors = 4;
  parts.model.hidden = {16};
  parts.batch = 50;
  return parts;
}

TEST(TorchLearner, EveryModelEqualsItsTorchNnTwin) {
  LearnerParts group = batch_norm_parts();
  group.model.norm = "group";
  LearnerParts binary = parts_for(patterns({20}, 2, 100), "logistic", sgd(0.1));
  LearnerParts linear = parts_for(testing::plane(12, 100), "linear", sgd(0.01));
  LearnerParts colour = parts_for(patterns({3, 32, 32}, 10, kGate ? 20 : 64), "lenet", sgd(0.01));
  LearnerParts softmax = parts_for(patterns({20}, 4, 100), "logistic", sgd(0.1));
  for (const LearnerParts& parts :
       {mlp_parts(), group, batch_norm_parts(), binary, linear, colour, softmax, click_parts()}) {
    auto learner = make(parts);
    BareLoop loop(parts);
    for (int i = 0; i < (kGate ? 2 : 4); ++i)
      EXPECT_EQ(take(*learner, LocalStep{}).loss, loop.step());
    EXPECT_EQ(copy(learner->params()), loop.params()) << parts.model.kind;
  }
}

TEST(TorchLearner, GradientThenApplyGradientIsALocalStep) {
  for (const bool mirror : {false, true}) {
    LearnerParts parts = mlp_parts();
    parts.mirror = mirror;
    auto one = make(parts), other = make(parts);
    for (int i = 0; i < 5; ++i) {
      const StepResult result = take(*one, LocalStep{});
      const std::vector<float> before = copy(other->params());
      const StepResult gradient = take(*other, Gradient{});
      EXPECT_EQ(gradient.loss, result.loss);
      EXPECT_EQ(copy(other->params()), before);
      EXPECT_EQ(take(*other, ApplyGradient{}).samples, 0u);
    }
    EXPECT_EQ(copy(one->params()), copy(other->params()));
  }
}

TEST(TorchLearner, ApplyGradientTakesWhatStandsInGrads) {
  for (const bool mirror : {false, true}) {
    LearnerParts parts = mlp_parts(sgd(0.5));
    parts.mirror = mirror;
    auto learner = make(parts);
    std::vector<float> expected = copy(learner->params());
    for (float& value : expected) value -= 0.5f * 2.f;
    std::fill(learner->grads().begin(), learner->grads().end(), 2.f);
    take(*learner, ApplyGradient{});
    EXPECT_EQ(copy(learner->params()), expected);
  }
}

// A learner whose host memory is a mirror takes the same steps: every boundary's writes count.
TEST(TorchLearner, AMirrorOfADeviceChangesNothing) {
  LearnerParts parts = batch_norm_parts();
  auto plain = make(parts);
  parts.mirror = true;
  auto mirrored = make(parts);
  for (int i = 0; i < (kGate ? 2 : 4); ++i) {
    for (Learner* learner : {plain.get(), mirrored.get()}) {
      learner->params()[3] += 0.25f;  // as a strategy does at a boundary
      take(*learner, LocalStep{});
      take(*learner, Gradient{});
      learner->grads()[5] += 1;
      take(*learner, ApplyGradient{});
      take(*learner, Score{});
    }
    EXPECT_EQ(copy(plain->params()), copy(mirrored->params()));
  }
}

TEST(TorchLearner, SaveAndLoadMidRunGoesOnBitForBit) {
  OptimizerConfig momentum = sgd(0.05, 0.9);
  momentum.schedule = "cosine";
  momentum.steps = 20;
  OptimizerConfig adam{.kind = "adam", .rate = 1e-3};
  OptimizerConfig adamw = adam;
  adamw.kind = "adamw";
  adamw.warmup_steps = 10;
  OptimizerConfig adagrad{.kind = "adagrad", .rate = 0.02};
  for (const OptimizerConfig& optimizer : {momentum, adagrad, adam, adamw}) {
    const LearnerParts parts = mlp_parts(optimizer);
    auto straight = make(parts);
    for (int i = 0; i < 7; ++i) take(*straight, LocalStep{});
    take(*straight, Gradient{});
    const Buffer bytes = save(*straight);
    auto resumed = make(parts);
    load(*resumed, bytes);
    EXPECT_EQ(save(*resumed), bytes);
    for (Learner* learner : {straight.get(), resumed.get()}) {
      take(*learner, ApplyGradient{});
      for (int i = 0; i < 20; ++i) take(*learner, LocalStep{});
    }
    EXPECT_EQ(save(*resumed), save(*straight));
  }
}

TEST(TorchLearner, ATornCheckpointIsAnErrorAndLeavesAWorkingLearner) {
  OptimizerConfig adam{.kind = "adam"};
  auto learner = make(mlp_parts(adam));
  take(*learner, LocalStep{});
  const Buffer whole = save(*learner);
  for (std::size_t cut = 0; cut < whole.size(); cut += 97) {
    Archive ar(std::span<const std::byte>(whole).first(cut));
    learner->state(ar);
    EXPECT_FALSE(ar.finish()) << cut;
    take(*learner, LocalStep{});
  }
}

TEST(TorchLearner, ProximalStepWithoutPenaltyIsALocalStepBitForBit) {
  const LearnerParts parts = mlp_parts();
  auto plain = make(parts), proximal = make(parts);
  // The penalty's gradient is not even looked at: 0 times an infinite distance is not a number.
  const auto anchor = std::make_shared<const std::vector<float>>(
      plain->params().size(), std::numeric_limits<float>::infinity());
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(take(*plain, LocalStep{}).loss, take(*proximal, ProximalStep{0, anchor}).loss);
    EXPECT_EQ(copy(plain->params()), copy(proximal->params()));
  }
}

TEST(TorchLearner, ProximalStepAddsThePullToTheAnchor) {
  const LearnerParts parts = mlp_parts(sgd(0.1));
  auto plain = make(parts), proximal = make(parts);
  const std::vector<float> start = copy(plain->params());
  auto anchor = std::make_shared<std::vector<float>>(start);
  for (float& value : *anchor) value += 1;
  take(*plain, LocalStep{});
  take(*proximal, ProximalStep{0.5, anchor});
  for (std::size_t i = 0; i < start.size(); ++i)  // x - rate (g + mu (x - anchor))
    EXPECT_NEAR(proximal->params()[i], plain->params()[i] + 0.1 * 0.5, 1e-6);
}

TEST(TorchLearner, RunningStatisticsAreBuffersOfTheLayout) {
  LearnerParts parts = batch_norm_parts();
  parts.optimizer.weight_decay = 0.1;
  auto learner = make(std::move(parts));
  const Layout& layout = *learner->layout();
  EXPECT_EQ(layout.buffers().length, 2u * (7 * 16 + 6 * 32 + 6 * 64));
  const auto buffers = [&] {
    return copy(learner->params().subspan(layout.buffers().offset, layout.buffers().length));
  };
  const std::vector<float> start = buffers();
  take(*learner, Gradient{});
  const std::vector<float> moved = buffers();
  EXPECT_NE(moved, start);
  for (std::uint64_t i = layout.buffers().offset; i < layout.size(); ++i)
    ASSERT_EQ(learner->grads()[i], 0.f);
  take(*learner, ApplyGradient{});
  EXPECT_EQ(buffers(), moved);  // the optimiser leaves them alone
  take(*learner, Score{});
  EXPECT_EQ(buffers(), moved);
}

// The twin's, which are in the exchange; nobody changes them there.
TEST(TorchLearner, StatisticsThatStayAtHomeAreThoseOfATwin) {
  for (const bool mirror : {false, true}) {
    LearnerParts parts = batch_norm_parts();
    parts.mirror = mirror;
    auto twin = make(parts);
    parts.model.bn = "local";
    auto learner = make(parts);
    EXPECT_EQ(keeper(twin.get())->kept_values().size(), 0u);
    EXPECT_EQ(learner->layout()->buffers().length, 0u);
    EXPECT_EQ(learner->layout()->parameters(), twin->layout()->parameters());
    const std::vector<float> start = keeper(learner.get())->kept_values();
    for (int i = 0; i < (kGate ? 1 : 3); ++i) {
      EXPECT_EQ(take(*learner, LocalStep{}).loss, take(*twin, LocalStep{}).loss);
      EXPECT_EQ(take(*learner, Score{}).loss, take(*twin, Score{}).loss);
      EXPECT_EQ(whole_model(learner.get(), learner->params()), copy(twin->params()));
    }
    EXPECT_NE(keeper(learner.get())->kept_values(), start);
    EXPECT_EQ(learner->params().size(), learner->layout()->size());
    EXPECT_EQ(learner->grads().size(), learner->layout()->size());
  }
}

TEST(TorchLearner, AVisitorIsScoredWithTheStatisticsOfItsHost) {
  LearnerParts parts = batch_norm_parts();
  auto twin = make(parts);
  parts.model.bn = "local";
  auto host = make(parts), home = make(parts);
  for (int i = 0; i < (kGate ? 2 : 4); ++i) {
    take(*host, LocalStep{});
    take(*twin, LocalStep{});
  }
  take(*home, LocalStep{});
  const auto visitor = std::make_shared<const std::vector<float>>(copy(home->params()));
  const auto whole =
      std::make_shared<const std::vector<float>>(whole_model(host.get(), home->params()));
  const Buffer before = save(*host);
  const double loss = take(*host, Score{visitor}).loss;
  EXPECT_EQ(loss, take(*twin, Score{whole}).loss);
  EXPECT_NE(loss, take(*home, Score{visitor}).loss);
  EXPECT_EQ(save(*host), before);
}

TEST(TorchLearner, StatisticsThatStayAtHomeAreSaved) {
  LearnerParts parts = batch_norm_parts();
  parts.model.bn = "local";
  auto straight = make(parts), resumed = make(parts);
  for (int i = 0; i < 3; ++i) take(*straight, LocalStep{});
  const Buffer bytes = save(*straight);
  load(*resumed, bytes);
  EXPECT_EQ(keeper(resumed.get())->kept_values(), keeper(straight.get())->kept_values());
  EXPECT_EQ(save(*resumed), bytes);
}

TEST(TorchLearner, AScratchStepLeavesEverythingAsItWas) {
  for (LearnerParts parts : {mlp_parts(), batch_norm_parts()}) {
    auto learner = make(parts);
    take(*learner, LocalStep{});
    const Buffer before = save(*learner);
    const double loss = take(*learner, ScratchStep{}).loss;
    EXPECT_EQ(save(*learner), before);
    EXPECT_EQ(take(*learner, LocalStep{}).loss, loss);
  }
}

TEST(TorchLearner, ScoreJudgesAnotherModelOnTheNextBatchAndKeepsItsOwn) {
  for (const bool mirror : {false, true}) {
    LearnerParts parts = mlp_parts();
    parts.mirror = mirror;
    auto learner = make(parts), twin = make(parts);
    for (int i = 0; i < 30; ++i) take(*learner, LocalStep{});
    const auto zero = std::make_shared<const std::vector<float>>(learner->params().size(), 0.f);
    const Buffer before = save(*learner);
    const StepResult scored = take(*learner, Score{zero});
    EXPECT_FLOAT_EQ(float(scored.loss), std::log(4.f));
    EXPECT_GT(take(*learner, Score{}).accuracy, scored.accuracy);
    EXPECT_EQ(save(*learner), before);
    // Without dropout and batch statistics the score of the own model is the next step's loss.
    const double ahead = take(*learner, Score{}).loss;
    EXPECT_EQ(ahead, take(*learner, LocalStep{}).loss);
  }
}

TEST(TorchLearner, AFixedGradientIsOfTheFirstSamplesAndReadsNoBatch) {
  auto learner = make(mlp_parts(sgd(0.1, 0.9)));
  take(*learner, LocalStep{});
  const StepResult first = take(*learner, FixedGradient{.samples = 7});
  EXPECT_EQ(first.samples, 7u);
  const std::vector<float> gradient = copy(learner->grads());
  const double ahead = take(*learner, Score{}).loss;
  EXPECT_EQ(take(*learner, FixedGradient{.samples = 7}).loss, first.loss);
  EXPECT_EQ(copy(learner->grads()), gradient);
  EXPECT_EQ(take(*learner, LocalStep{}).loss, ahead);
  take(*learner, FixedGradient{.samples = 7});
  EXPECT_NE(copy(learner->grads()), gradient);
}

TEST(TorchLearner, ResetOptimizerForgetsMomentum) {
  const LearnerParts parts = mlp_parts(sgd(0.1, 0.9));
  auto learner = make(parts);
  take(*learner, LocalStep{});
  take(*learner, ResetOptimizer{});
  std::vector<float> expected = copy(learner->params());
  std::fill(learner->grads().begin(), learner->grads().end(), 1.f);
  for (float& value : expected) value -= 0.1f;
  take(*learner, ApplyGradient{});
  for (std::size_t i = 0; i < expected.size(); ++i)
    ASSERT_FLOAT_EQ(learner->params()[i], expected[i]);
}

TEST(TorchLearner, BitsDoNotDependOnTheThread) {
  const LearnerParts parts = lenet_parts();
  auto here = make(parts), there = make(parts), beside = make(parts);
  for (int i = 0; i < 4; ++i) {
    take(*here, LocalStep{});
    at::NoGradGuard somebody_else_left_this_on;
    std::thread([&] { take(*there, LocalStep{}); }).join();
    std::thread busy([&] { take(*beside, LocalStep{}); });
    take(*make(parts), LocalStep{});
    busy.join();
  }
  EXPECT_EQ(copy(here->params()), copy(there->params()));
  EXPECT_EQ(copy(here->params()), copy(beside->params()));
}

TEST(TorchLearner, CountsSamplesAndEpochs) {
  LearnerParts parts = mlp_parts();
  parts.shard.resize(20);
  auto learner = make(parts);
  std::uint64_t samples = 0;
  int steps = 0;
  for (bool ended = false; !ended; ++steps) {
    const StepResult result = take(*learner, LocalStep{});
    EXPECT_EQ(result.shard_size, 20u);
    samples += result.samples;
    ended = result.exhausted;
  }
  EXPECT_EQ(samples, 20u);
  EXPECT_EQ(steps, 3);
}

TEST(TorchLearner, EqualSeedsStartEqualAndRanksSeeTheirOwnOrder) {
  LearnerParts parts = mlp_parts();
  auto zero = make(parts);
  parts.origin = 1;
  auto one = make(parts);
  EXPECT_EQ(copy(zero->params()), copy(one->params()));
  EXPECT_NE(take(*zero, LocalStep{}).loss, take(*one, LocalStep{}).loss);
  parts.seed = 8;
  EXPECT_NE(copy(make(parts)->params()), copy(make(mlp_parts())->params()));
}

TEST(TorchLearner, SufficientFactorsMultiplyToTheGradient) {
  const LearnerParts parts = mlp_parts();
  auto learner = make(parts), plain = make(parts);
  const Layout& layout = *learner->layout();
  const StepResult result = take(*learner, SufficientFactors{{0, 2}});
  EXPECT_EQ(result.loss, take(*plain, Gradient{}).loss);
  const LayerRange& weight = layout.layers()[2];
  ASSERT_EQ(weight.name, "fc2.weight");
  const std::size_t out = 4, in = 16, batch = 8;
  const auto first = std::size_t(layout.layers()[0].shape[0] + layout.layers()[0].shape[1]);
  ASSERT_EQ(result.factors.size(), batch * (first + out + in));
  const float* factors = &result.factors[batch * first];
  for (std::size_t o = 0; o < out; ++o)
    for (std::size_t i = 0; i < in; ++i) {
      double sum = 0;
      for (std::size_t b = 0; b < batch; ++b)
        sum += double(factors[b * out + o]) * factors[batch * out + b * in + i];
      EXPECT_NEAR(sum, plain->grads()[weight.range.offset + o * in + i], 1e-6);
    }
  for (std::size_t i = 0; i < layout.size(); ++i)
    ASSERT_NEAR(learner->grads()[i], plain->grads()[i], 1e-6);
  EXPECT_FALSE(learner->step(SufficientFactors{{1}}));  // a bias
  EXPECT_FALSE(learner->step(SufficientFactors{{99}}));
}

// sync/sfb_test.cpp, invariant 9: with softmax and cross-entropy each row of the output layer's u
// sums to 0.
TEST(TorchLearner, RowsOfTheOutputLayersFactorSumToZero) {
  auto learner = make(mlp_parts());
  const StepResult result = take(*learner, SufficientFactors{{2}});
  const std::size_t out = 4, batch = 8;
  for (std::size_t row = 0; row < batch; ++row) {
    double sum = 0;
    for (std::size_t o = 0; o < out; ++o) sum += double(result.factors[row * out + o]);
    EXPECT_NEAR(sum, 0, 1e-5);
  }
}

// Parts from the output to the input leave what a whole backward pass leaves, also if the learner
// is saved and loaded between two of them; and the next batch is the next one.
TEST(TorchLearner, ABackwardPassInPartsIsTheWhole) {
  auto learner = make(mlp_parts()), loaded = make(mlp_parts()), plain = make(mlp_parts());
  const auto entries = std::uint32_t(learner->layout()->layers().size());
  for (int batch = 0; batch < 2; ++batch) {
    const StepResult whole = take(*plain, SufficientFactors{{0, 2}});
    const StepResult top =
        take(*learner, BackwardPart{.first = 2, .end = entries, .begins = true, .layers = {2}});
    const Buffer saved = save(*learner);
    load(*loaded, saved);
    const StepResult low = take(*loaded, BackwardPart{.first = 0, .end = 2, .layers = {0}});
    const StepResult own = take(*learner, BackwardPart{.first = 0, .end = 2, .layers = {0}});
    EXPECT_EQ(top.loss, whole.loss);
    EXPECT_EQ(top.samples, whole.samples);
    EXPECT_EQ(low.samples, 0u);
    EXPECT_EQ(low.factors, own.factors);
    std::vector<float> factors = own.factors;  // of the lower layer first
    factors.insert(factors.end(), top.factors.begin(), top.factors.end());
    EXPECT_EQ(factors, whole.factors);
    EXPECT_EQ(copy(learner->grads()), copy(plain->grads()));
    EXPECT_EQ(copy(loaded->grads()), copy(plain->grads()));
  }
  EXPECT_FALSE(
      learner->step(BackwardPart{.first = 0, .end = 2, .layers = {}}));  // no batch has begun
  EXPECT_FALSE(
      learner->step(BackwardPart{.first = 1, .end = entries, .begins = true, .layers = {}}));
}

// A step in parts, the optimiser's too, is the step to the bit, also if the learner is saved and
// loaded after any part; parameters of a later part may change until its forward part begins.
TEST(TorchLearner, AStepInPartsIsTheWhole) {
  for (const char* kind : {"sgd", "adam"}) {
    LearnerParts parts = mlp_parts();
    parts.optimizer.kind = kind;
    auto learner = make(parts), plain = make(parts);
    const auto entries = std::uint32_t(learner->layout()->layers().size());
    const auto reload = [&] {
      const Buffer saved = save(*learner);
      learner = make(parts);
      load(*learner, saved);
    };
    for (int batch = 0; batch < 3; ++batch) {
      const StepResult whole = take(*plain, Gradient{});
      take(*learner, ForwardPart{.first = 0, .end = 2});
      reload();
      if (batch > 0) take(*learner, ApplyGradient{2, entries});
      reload();
      take(*learner, ForwardPart{.first = 2, .end = entries});
      reload();
      const StepResult top =
          take(*learner, BackwardPart{.first = 2, .end = entries, .begins = true, .layers = {}});
      reload();
      take(*learner, BackwardPart{.first = 0, .end = 2, .layers = {}});
      EXPECT_EQ(top.loss, whole.loss);
      EXPECT_EQ(copy(learner->grads()), copy(plain->grads())) << kind << batch;
      take(*plain, ApplyGradient{});
      take(*learner, ApplyGradient{0, 2});
      reload();
    }
    take(*learner, ApplyGradient{2, entries});
    EXPECT_EQ(copy(learner->params()), copy(plain->params())) << kind;
    EXPECT_FALSE(learner->step(ForwardPart{.first = 2, .end = entries}));  // not the first
    EXPECT_FALSE(learner->step(ForwardPart{.first = 0, .end = 1}));        // ends at no layer
    EXPECT_FALSE(learner->step(ApplyGradient{2, entries + 1}));
    take(*learner, ForwardPart{.first = 0, .end = 2});
    EXPECT_FALSE(learner->step(
        BackwardPart{.first = 2, .end = entries, .begins = true, .layers = {}}));  // too early
  }
}

// What p3 hands over to a worker that comes back: with it the next step is the sender's.
TEST(TorchLearner, HandsOverTheOptimisersOfItsParts) {
  for (const char* kind : {"sgd", "adam"}) {
    LearnerParts parts = mlp_parts(sgd(0.05, 0.9));
    parts.optimizer.kind = kind;
    const auto one = make(parts), other = make(parts);
    const auto entries = std::uint32_t(one->layout()->layers().size());
    const auto apply = [&](Learner& learner) {
      take(learner, ApplyGradient{0, 2});
      take(learner, ApplyGradient{2, entries});
    };
    for (int i = 0; i < 3; ++i) {
      take(*one, Gradient{});
      apply(*one);
    }
    EXPECT_FALSE(one->step(OptimizerState{})) << "no vectors of the whole";
    const auto state = take(*one, OptimizerState{.set = {}, .whole = true}).outputs;
    take(*other, OptimizerState{.set = state, .whole = true});
    take(*one, Gradient{});
    std::ranges::copy(one->grads(), other->grads().begin());
    std::ranges::copy(one->params(), other->params().begin());
    apply(*one);
    apply(*other);
    EXPECT_EQ(copy(one->params()), copy(other->params())) << kind;
  }
}

LearnerParts rating_parts(OptimizerConfig optimizer) {
  const auto made =
      load_data({.kind = "ratings", .samples = 200, .test_samples = 50, .users = 20, .items = 30});
  LearnerParts parts = parts_for(made->train, "matrix_factorisation", std::move(optimizer));
  parts.model.factors = 4;
  parts.batch = 8;
  return parts;
}

// What a step says that the next one reads is all that the next one changes (sgd without momentum).
TEST(TorchLearner, SaysWhatTheNextStepReads) {
  const auto learner = make(rating_parts(sgd(0.1)));
  StepResult said = take(*learner, LocalStep{.ahead = 1});
  ASSERT_FALSE(said.reads_next.empty());
  EXPECT_TRUE(take(*make(lenet_parts()), LocalStep{.ahead = 1}).reads_next.empty()) << "all";
  for (int step = 0; step < 30; ++step) {  // beyond the end of an epoch of 25 batches
    const std::vector<float> before = copy(learner->params());
    const StepResult next = take(*learner, LocalStep{.ahead = 1});
    for (std::size_t i = 0; i < before.size(); ++i) {
      const bool reads = std::ranges::any_of(said.reads_next, [&](const Range& range) {
        return i >= range.offset && i < range.end();
      });
      EXPECT_TRUE(reads || learner->params()[i] == before[i]) << i;
    }
    said = next;
  }
  EXPECT_TRUE(take(*learner, LocalStep{}).reads_next.empty()) << "not asked for";
}

// Better than the best constant, whose loss is the entropy of the click rate.
TEST(TorchLearner, LearnsClicks) {
  const LearnerParts parts = click_parts();
  const auto learner = make(parts);
  double clicks = 0;
  for (const std::int64_t label : parts.data->labels) clicks += double(label);
  const double rate = clicks / 6000;
  const double entropy = -rate * std::log(rate) - (1 - rate) * std::log(1 - rate);
  for (int i = 0; i < (kGate ? 1 : 4) * 120; ++i) take(*learner, LocalStep{});
  double loss = 0;
  for (int i = 0; i < 120; ++i) loss += take(*learner, LocalStep{}).loss / 120;
  EXPECT_LT(loss, entropy - 0.005);
}

TEST(TorchLearner, FitsRatings) {
  const auto learner = make(rating_parts(sgd(0.1, 0.5)));
  const double before = take(*learner, LocalStep{}).loss;
  double after = 0;
  for (int step = 0; step < 300; ++step) after = take(*learner, LocalStep{}).loss;
  EXPECT_GT(before, 3);
  EXPECT_LT(after, 1);
}

// Momentum and moments go out and come in as they stand.
TEST(TorchLearner, ItsOptimizersVectorsMayBeReadAndSet) {
  OptimizerConfig adam{.kind = "adam", .rate = 0.01};
  for (const OptimizerConfig& optimizer : {sgd(0.05, 0.9), adam}) {
    const auto one = make(mlp_parts(optimizer)), other = make(mlp_parts(optimizer));
    EXPECT_TRUE(take(*one, OptimizerState{}).outputs.empty()) << "none yet";
    for (int step = 0; step < 3; ++step) take(*one, LocalStep{});
    take(*other, LocalStep{});
    const std::vector<float> state = take(*one, OptimizerState{}).outputs;
    const std::size_t n = one->layout()->parameters().length;
    EXPECT_EQ(state.size(), optimizer.kind == "sgd" ? n : 2 * n);
    EXPECT_NE(take(*other, OptimizerState{}).outputs, state);
    EXPECT_EQ(take(*other, OptimizerState{state}).outputs, state);
    EXPECT_FALSE(other->step(OptimizerState{{1, 2, 3}}));
  }
  EXPECT_TRUE(take(*make(mlp_parts(sgd(0.05))), OptimizerState{}).outputs.empty());
}

// With its counts of steps, that of the schedule too.
TEST(TorchLearner, HandsOverAllThatItsOptimiserKeeps) {
  for (const char* kind : {"sgd", "adam", "muon"}) {
    OptimizerConfig config = sgd(0.05);
    config.kind = kind;
    const auto one = make(mlp_parts(config)), other = make(mlp_parts(config));
    for (int i = 0; i < 3; ++i) take(*one, LocalStep{});
    const std::vector<float> state = take(*one, OptimizerState{.set = {}, .whole = true}).outputs;
    const auto set = take(*other, OptimizerState{.set = state, .whole = true}).outputs;
    // Counts as floats may be no numbers, which equal nothing.
    EXPECT_TRUE(std::ranges::equal(std::as_bytes(std::span(set)), std::as_bytes(std::span(state))))
        << kind;
    EXPECT_FALSE(other->step(OptimizerState{.set = {1, 2, 3}, .whole = true}));
  }
}

// [optimizer] clip.

LearnerParts clip_parts(const std::string& kind, std::optional<double> clip) {
  OptimizerConfig optimizer{.kind = kind, .clip = clip};
  if (kind == "sgd") optimizer.momentum = 0.9;
  LearnerParts parts = testing::parts_for(testing::patterns({20}, 4, 60), "mlp", optimizer);
  parts.model.hidden = {8};
  return parts;
}

// torch.nn.utils.clip_grad_norm_: the norm of the norms of all tensors.
double scale_of(const Layout& layout, std::span<const float> grads, double clip) {
  std::vector<at::Tensor> norms;
  for (const LayerRange& layer : layout.layers()) {
    const auto values = grads.subspan(layer.range.offset, layer.range.length);
    norms.push_back(at::linalg_vector_norm(
        at::from_blob(const_cast<float*>(values.data()), {std::int64_t(values.size())})));
  }
  const double norm = at::linalg_vector_norm(at::stack(norms)).item<double>();
  return std::min(1.0, clip / (norm + 1e-6));
}

void expect_near(Learner& a, Learner& b, const std::string& what) {
  for (std::size_t i = 0; i < a.params().size(); ++i)
    ASSERT_NEAR(a.params()[i], b.params()[i], 2e-6) << what << " " << i;
}

TEST(Clip, EveryStepTakesTheGradientThatTorchWouldClip) {
  for (const char* kind : {"sgd", "adagrad", "adam", "adamw", "muon"}) {
    auto local = make(clip_parts(kind, 0.05)), apart = make(clip_parts(kind, 0.05)),
         plain = make(clip_parts(kind, {}));
    for (int i = 0; i < 3; ++i) {
      take(*local, LocalStep{});
      take(*apart, Gradient{});
      take(*apart, ApplyGradient{});
      take(*plain, Gradient{});
      const double scale = scale_of(*plain->layout(), plain->grads(), 0.05);
      EXPECT_LT(scale, 0.5) << kind;  // else nothing is tried
      for (float& value : plain->grads()) value = float(value * scale);
      take(*plain, ApplyGradient{});
      expect_near(*local, *plain, kind);
      expect_near(*apart, *local, kind);
    }
  }
}

TEST(Clip, AShorterGradientKeepsItsBits) {
  auto clipped = make(clip_parts("sgd", 1e6)), plain = make(clip_parts("sgd", {}));
  for (int i = 0; i < 4; ++i)
    EXPECT_EQ(take(*clipped, LocalStep{}).loss, take(*plain, LocalStep{}).loss);
  EXPECT_TRUE(std::ranges::equal(clipped->params(), plain->params()));
}

// The proximal term is a part of the gradient.
TEST(Clip, AProximalStepMovesNoFurtherThanTheClipAllows) {
  LearnerParts parts = clip_parts("sgd", 0.01);
  parts.optimizer.momentum = 0;
  parts.optimizer.rate = 1;
  auto learner = make(parts);
  const std::vector<float> start(learner->params().begin(), learner->params().end());
  const auto far = std::make_shared<const std::vector<float>>(start.size(), 3.0f);
  take(*learner, ProximalStep{5, far});
  double moved = 0;
  for (std::size_t i = 0; i < start.size(); ++i)
    moved += std::pow(double(learner->params()[i]) - double(start[i]), 2);
  EXPECT_NEAR(std::sqrt(moved), 0.01, 1e-5);
}

TEST(Clip, IsRefusedWhereAGradientIsAppliedInParts) {
  auto learner = make(clip_parts("sgd", 1));
  take(*learner, Gradient{});
  EXPECT_TRUE(says(learner->step(ApplyGradient{0, 2}), "[optimizer] clip"));
}

}  // namespace
}  // namespace longhaul::learn
