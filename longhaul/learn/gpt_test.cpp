#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <cmath>

#include "longhaul/base/testing/effort.h"
#include "longhaul/base/testing/result.h"
#include "longhaul/learn/net.h"
#include "longhaul/learn/scorer.h"
#include "longhaul/learn/testing/bare_loop.h"
#include "longhaul/learn/testing/learners.h"

namespace longhaul::learn {
namespace {

using longhaul::testing::kGate;

using testing::words;

OptimizerConfig adamw_of(double rate) {
  OptimizerConfig config{.kind = "adamw", .rate = rate};
  return config;
}

OptimizerConfig muon_of(double rate) {
  OptimizerConfig config = adamw_of(rate);
  config.kind = "muon";
  config.adamw_rate = 0.01;
  return config;
}

// 12 samples of 16 bytes, all of them in every batch.
LearnerParts gpt_parts(OptimizerConfig optimizer = adamw_of(0.01)) {
  LearnerParts parts = testing::parts_for(words(16, 12), "gpt", std::move(optimizer));
  parts.model.width = 8;
  parts.batch = 12;
  return parts;
}

double loss_of(Learner& learner, const Work& work) { return testing::take(learner, work).loss; }

// But for the order in which each sums the two gradients of the tied matrix.
TEST(Gpt, EqualsItsTorchNnTwin) {
  OptimizerConfig sgd{.momentum = 0.9};
  LearnerParts parts = gpt_parts(sgd);
  parts.batch = 5;
  auto learner = testing::make(parts);
  testing::BareLoop loop(parts);
  for (int i = 0; i < 6; ++i) EXPECT_NEAR(loss_of(*learner, LocalStep{}), loop.step(), 1e-5) << i;
  const auto params = learner->params();
  const std::vector<float> twin = loop.params();
  for (std::size_t i = 0; i < twin.size(); ++i) ASSERT_NEAR(params[i], twin[i], 1e-5) << i;
}

// Along each layer's own gradient g the loss grows by |g| a unit of length.
TEST(Gpt, GradientIsThatOfTheLoss) {
  auto learner = testing::make(gpt_parts());
  for (int i = 0; i < (kGate ? 8 : 20); ++i)
    loss_of(*learner, LocalStep{});  // away from the flat start
  const std::span<float> params = learner->params();
  const std::vector<float> start(params.begin(), params.end());
  loss_of(*learner, Gradient{});
  const std::vector<float> gradient(learner->grads().begin(), learner->grads().end());
  for (const LayerRange& layer : learner->layout()->layers()) {
    const auto at = [&](double step) {
      for (std::uint64_t i = 0; i < layer.range.length; ++i)
        params[layer.range.offset + i] =
            start[layer.range.offset + i] + float(step * gradient[layer.range.offset + i]);
      const double loss = loss_of(*learner, Score{});
      std::copy(start.begin(), start.end(), params.begin());
      return loss;
    };
    double square = 0;
    for (std::uint64_t i = 0; i < layer.range.length; ++i)
      square += double(gradient[layer.range.offset + i]) * gradient[layer.range.offset + i];
    ASSERT_GT(square, 0) << layer.name;
    const double step = 0.03 / std::sqrt(square), grown = at(step) - at(-step);
    // 2e-6: what rounding leaves of the loss.
    EXPECT_NEAR(grown, 2 * step * square, 0.03 * (2 * step * square) + 2e-6) << layer.name;
  }
}

TEST(Gpt, ALaterByteChangesNoEarlierPrediction) {
  const LearnerParts parts = gpt_parts();
  Net net = Net::from_spec(*model_spec(parts.model, parts.data->shape));
  net.assign(*initial_model(parts.model, parts.data->shape, 1));
  at::NoGradGuard no_grad;
  const at::Tensor input = at::arange(97, 97 + 16, at::kLong).unsqueeze(0);
  const at::Tensor plain = net.forward(input, false);
  EXPECT_EQ(plain.sizes().vec(), (std::vector<std::int64_t>{1, 16, 256}));
  for (const std::int64_t place : {0, 7, 15}) {
    at::Tensor changed = input.clone();
    changed[0][place] = 33;
    const at::Tensor output = net.forward(changed, false);
    EXPECT_TRUE(at::equal(output.slice(1, 0, place), plain.slice(1, 0, place))) << place;
    for (std::int64_t later = place; later < 16; ++later)
      EXPECT_FALSE(at::equal(output[0][later], plain[0][later])) << place << " " << later;
  }
}

TEST(Gpt, AShorterInputIsPredictedAsTheBeginningOfALonger) {
  const LearnerParts parts = gpt_parts();
  Net net = Net::from_spec(*model_spec(parts.model, parts.data->shape));
  net.assign(*initial_model(parts.model, parts.data->shape, 1));
  at::NoGradGuard no_grad;
  const at::Tensor input = at::arange(60, 60 + 16, at::kLong).unsqueeze(0);
  EXPECT_TRUE(at::allclose(net.forward(input.slice(1, 0, 5), false),
                           net.forward(input, false).slice(1, 0, 5), 1e-5, 1e-6));
}

TEST(Gpt, LearnsWhatRepeats) {
  for (const OptimizerConfig& optimizer : {adamw_of(0.01), muon_of(0.02)}) {
    const LearnerParts parts = gpt_parts(optimizer);
    auto learner = testing::make(parts);
    const double begin = loss_of(*learner, Score{});
    EXPECT_NEAR(begin, std::log(256.0), 0.1);
    for (int i = 0; i < (kGate ? 20 : 150); ++i) loss_of(*learner, LocalStep{});
    auto scorer = good(make_scorer(parts.model, parts.data));
    const auto score = good((*scorer)->score(learner->params()));
    EXPECT_LT(score->loss, kGate ? 4.5 : 1.2) << optimizer.kind;
    EXPECT_GT(score->accuracy, kGate ? 0.1 : 0.6) << optimizer.kind;
    EXPECT_EQ(score->samples, 12u * 16);  // bytes
    EXPECT_NEAR(score->loss, loss_of(*learner, Score{}), 1e-5);
  }
}

TEST(Gpt, SaveAndLoadGoesOnBitForBit) {
  for (const OptimizerConfig& optimizer : {adamw_of(0.01), muon_of(0.02)}) {
    LearnerParts parts = gpt_parts(optimizer);
    parts.batch = 5;
    auto straight = testing::make(parts), resumed = testing::make(parts);
    const auto save = [](Learner& learner) {
      Archive ar;
      learner.state(ar);
      return ar.take();
    };
    for (int i = 0; i < (kGate ? 2 : 4); ++i) loss_of(*straight, LocalStep{});
    const Buffer bytes = save(*straight);
    testing::load(*resumed, bytes);
    for (Learner* learner : {straight.get(), resumed.get()})
      for (int i = 0; i < (kGate ? 2 : 6); ++i) loss_of(*learner, LocalStep{});
    EXPECT_EQ(save(*resumed), save(*straight)) << optimizer.kind;
    // A torn state is an error, and what it was loaded into still steps.
    for (std::size_t cut = 0; cut < bytes.size(); cut += bytes.size() / 7) {
      Archive torn(std::span<const std::byte>(bytes).first(cut));
      resumed->state(torn);
      EXPECT_FALSE(torn.finish());
      loss_of(*resumed, LocalStep{});
    }
  }
}

TEST(Gpt, SaysWhatDoesNotFit) {
  const DataShape text = words(16, 4)->shape;
  const auto why = [&](const ModelConfig& config, const DataShape& shape) {
    auto spec = model_spec(config, shape);
    return spec ? "" : spec.error().what;
  };
  EXPECT_EQ(why({.kind = "gpt"}, text), "");
  EXPECT_TRUE(says(why({.kind = "gpt", .context = 8}, text), "context = 8"));
  EXPECT_TRUE(says(why({.kind = "gpt", .width = 9}, text), "multiple of heads"));
  EXPECT_TRUE(says(why({.kind = "gpt"}, {{20}, 4, Task::classification}), "\"text\""));
  for (const char* kind : {"linear", "logistic", "mlp", "lenet", "resnet20"})
    EXPECT_TRUE(says(why({.kind = kind}, text), "takes no text")) << kind;
}

}  // namespace
}  // namespace longhaul::learn
