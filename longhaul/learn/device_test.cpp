// The learner on the device of [model] device = "auto", beside one on the CPU: where torch finds a
// GPU, these tests are of it, and the learners of all other tests are there, too.
#include <gtest/gtest.h>

#include <cmath>
#include <thread>

#include "longhaul/base/testing/effort.h"
#include "longhaul/base/testing/result.h"
#include "longhaul/learn/data/load.h"
#include "longhaul/learn/scorer.h"
#include "longhaul/learn/testing/learners.h"

namespace longhaul::learn {
namespace {

using longhaul::testing::kGate;
using testing::load;
using testing::parts_for;
using testing::patterns;
using testing::save;
using testing::take;

LearnerParts with(std::shared_ptr<const DataSet> data, const std::string& kind,
                  const std::string& norm = {}) {
  OptimizerConfig optimizer{.rate = 0.01, .momentum = 0.9};
  LearnerParts parts = parts_for(std::move(data), kind, optimizer);
  if (!norm.empty()) parts.model.norm = norm;
  parts.batch = kGate ? 4 : 16;
  return parts;
}

std::vector<LearnerParts> made_models() {
  LearnerParts mlp = with(patterns({20}, 4, 100), "mlp");
  mlp.model.hidden = {64, 32};
  LearnerParts gpt = with(testing::words(32, 100), "gpt");
  if (kGate) gpt.model.width = 8;
  gpt.optimizer.kind = "adamw";
  gpt.optimizer.momentum = {};
  LearnerParts clicks =
      with(load_data({.kind = "clicks", .samples = 500, .click_fields = 6, .values = 20})->train,
           "clicks");
  const auto ratings =
      load_data({.kind = "ratings", .samples = 200, .test_samples = 50, .users = 20, .items = 30})
          ->train;
  if (kGate)  // one of each kind of layer
    return {mlp,
            with(patterns({1, 28, 28}, 10, 100), "lenet"),
            with(patterns({3, 8, 8}, 3, 100), "resnet20", "batch"),
            gpt,
            clicks,
            with(ratings, "matrix_factorisation")};
  return {mlp,
          with(patterns({20}, 2, 100), "logistic"),
          with(testing::plane(12, 100), "linear"),
          with(patterns({1, 28, 28}, 10, 100), "lenet"),
          with(patterns({3, 32, 32}, 10, 100), "lenet", "group"),
          with(patterns({3, 16, 16}, 3, 100), "resnet20", "group"),
          with(patterns({3, 16, 16}, 3, 100), "resnet20", "batch"),
          gpt,
          clicks,
          with(ratings, "matrix_factorisation")};
}

// Their data are drawn once.
const std::vector<LearnerParts>& every_model() {
  static const std::vector<LearnerParts> all = made_models();
  return all;
}

std::unique_ptr<Learner> on(const std::string& device, LearnerParts parts) {
  parts.model.device = device;
  return testing::make(std::move(parts));
}

// |a - b| / |b|, Euclidean; |a - b| where b is nothing.
double apart(std::span<const float> a, std::span<const float> b) {
  double difference = 0, length = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference += std::pow(double(a[i]) - double(b[i]), 2);
    length += std::pow(double(b[i]), 2);
  }
  return std::sqrt(difference / (length > 0 ? length : 1));
}

// But for the order of sums, which normalisation by small deviations makes more of.
TEST(Device, TheGradientIsTheCpus) {
  for (const LearnerParts& parts : every_model()) {
    const auto own = on("auto", parts), cpu = on("cpu", parts);
    ASSERT_TRUE(std::ranges::equal(own->params(), cpu->params()));
    for (int i = 0; i < (kGate ? 1 : 3); ++i) {
      const double there = take(*own, Gradient{}).loss, here = take(*cpu, Gradient{}).loss;
      EXPECT_NEAR(there, here, 1e-5 * here) << parts.model.kind;
      EXPECT_LT(apart(own->grads(), cpu->grads()), 1e-4) << parts.model.kind;
      EXPECT_LT(apart(own->params(), cpu->params()), 1e-6) << "statistics of " << parts.model.kind;
    }
  }
}

// What the next step depends on, and nothing else: neither the thread nor what runs beside it.
TEST(Device, StepsAreEqualToTheBit) {
  constexpr int kSteps = kGate ? 2 : 12;
  for (const LearnerParts& parts : every_model()) {
    const auto alone = on("auto", parts);
    for (int i = 0; i < kSteps; ++i) take(*alone, LocalStep{});
    const auto one = on("auto", parts), other = on("auto", parts);
    std::jthread beside([&] {
      for (int i = 0; i < kSteps; ++i) take(*other, LocalStep{});
    });
    for (int i = 0; i < kSteps; ++i) take(*one, LocalStep{});
    beside.join();
    EXPECT_EQ(save(*one), save(*alone)) << parts.model.kind;
    EXPECT_EQ(save(*other), save(*alone)) << parts.model.kind;
  }
}

TEST(Device, GradientThenApplyGradientIsALocalStep) {
  for (const LearnerParts& parts : every_model()) {
    const auto whole = on("auto", parts), halves = on("auto", parts);
    for (int i = 0; i < (kGate ? 2 : 5); ++i) {
      take(*whole, LocalStep{});
      take(*halves, Gradient{});
      take(*halves, ApplyGradient{});
    }
    EXPECT_TRUE(std::ranges::equal(whole->params(), halves->params())) << parts.model.kind;
  }
}

// A site may come back on a machine without a GPU.
TEST(Device, ACheckpointIsOfNoDevice) {
  for (const LearnerParts& parts : every_model()) {
    const auto own = on("auto", parts), cpu = on("cpu", parts), back = on("auto", parts);
    for (int i = 0; i < (kGate ? 1 : 4); ++i) take(*own, LocalStep{});
    const Buffer bytes = save(*own);
    for (Learner* learner : {cpu.get(), back.get()}) {
      load(*learner, bytes);
      EXPECT_EQ(save(*learner), bytes) << parts.model.kind;
    }
    const double there = take(*own, LocalStep{}).loss, here = take(*cpu, LocalStep{}).loss;
    EXPECT_NEAR(there, here, 1e-4 * here) << parts.model.kind;
    take(*back, LocalStep{});
    EXPECT_EQ(save(*back), save(*own)) << parts.model.kind;
  }
}

TEST(Device, AModelIsScoredAsOnTheCpu) {
  for (LearnerParts parts : every_model()) {
    const auto learner = on("auto", parts);
    for (int i = 0; i < (kGate ? 2 : 10); ++i) take(*learner, LocalStep{});
    std::vector<Evaluation> scores;
    for (const char* device : {"auto", "cpu"}) {
      parts.model.device = device;
      const auto scorer = good(make_scorer(parts.model, parts.data));
      const auto score = good((*scorer)->score(learner->params(), 3));
      scores.push_back(*score);
    }
    EXPECT_EQ(scores[0].samples, scores[1].samples);
    EXPECT_NEAR(scores[0].loss, scores[1].loss, 1e-4 * scores[1].loss) << parts.model.kind;
    ASSERT_EQ(scores[0].accuracy.has_value(), scores[1].accuracy.has_value()) << parts.model.kind;
    if (scores[0].accuracy)
      EXPECT_NEAR(*scores[0].accuracy, *scores[1].accuracy, 0.011) << parts.model.kind;
  }
}

}  // namespace
}  // namespace longhaul::learn
