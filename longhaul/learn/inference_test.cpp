#include "longhaul/learn/inference.h"

#include <cmath>
#include <fstream>
#include <iterator>
#include <limits>

#include <gtest/gtest.h>

#include "longhaul/base/testing/result.h"
#include "longhaul/core/cheap_models.h"
#include "longhaul/learn/learner.h"
#include "longhaul/learn/model_file.h"
#include "longhaul/learn/testing/learners.h"

namespace longhaul::learn {
namespace {

class Inference : public ::testing::Test {
 protected:
  static constexpr std::uint32_t kClasses = 4;
  void SetUp() override {
    write("large.pt", {.kind = "mlp", .hidden = {32}}, 1);
    write("small.pt", {.kind = "logistic"}, 2);
  }
  void write(const std::string& name, const ModelConfig& config, std::uint64_t seed) {
    auto values = good(initial_model(config, data_->shape, seed));
    for (std::size_t i = 0; i < values->size(); ++i)
      (*values)[i] += 0.1f * std::sin(float(seed * 100 + i));
    folder_.write(name, *model_file(config, data_->shape, *values));
  }
  InferenceParts parts(std::uint32_t specialised = kClasses) const {
    return {
        .accurate = folder_.path("large.pt"),
        .cheap = {{folder_.path("small.pt"), specialised}, {folder_.path("large.pt"), specialised}},
        .shape = data_->shape,
        .device = "cpu"};
  }
  std::vector<Item> items(std::size_t count) const {
    std::vector<Item> items;
    for (std::size_t i = 0; i < count; ++i) {
      items.push_back({0, i + 1, Time{0}, std::vector<float>(20)});
      data_->copy_row(i, items.back().values);
    }
    return items;
  }

  std::shared_ptr<const DataSet> data_ = testing::patterns({20}, kClasses, 40);
  testing::TemporaryFolder folder_;
};

TEST_F(Inference, ABatchIsItsItemsOneByOne) {
  const auto learner = good(make_inference(parts()));
  for (const Infer::Model model : {Infer::Model::accurate, cheap_model(0), cheap_model(1)}) {
    const auto all = good((*learner)->step(Infer{model, items(10)}));
    EXPECT_EQ(all->samples, 10u);
    std::vector<float> one_by_one;
    for (const Item& item : items(10)) {
      const auto one = good((*learner)->step(Infer{model, {item}}));
      one_by_one.insert(one_by_one.end(), one->outputs.begin(), one->outputs.end());
    }
    ASSERT_EQ(all->outputs.size(), one_by_one.size());
    for (std::size_t i = 0; i < one_by_one.size(); ++i)
      EXPECT_NEAR(all->outputs[i], one_by_one[i], 1e-4 * (1 + std::abs(one_by_one[i])));
  }
}

// The accurate model's class is the best score of the same file as a cheap model.
TEST_F(Inference, ScoresAreLogarithmsOfProbabilitiesAndTheBestIsTheClass) {
  const auto learner = good(make_inference(parts()));
  const auto cheap = (*learner)->step(Infer{cheap_model(1), items(10)});
  const auto classes = (*learner)->step(Infer{Infer::Model::accurate, items(10)});
  ASSERT_TRUE(cheap && classes);
  const std::size_t each = cheap->outputs.size() / 10;
  ASSERT_EQ(each, kClasses + kClasses + 1);  // the scores are the features, too
  for (std::size_t i = 0; i < 10; ++i) {
    const auto scores = std::span(cheap->outputs).subspan(i * each + kClasses, kClasses);
    double sum = 0;
    for (const float score : scores) sum += std::exp(score);
    EXPECT_NEAR(sum, 1, 1e-5);
    EXPECT_EQ(float(std::max_element(scores.begin(), scores.end()) - scores.begin()),
              classes->outputs[i]);
  }
}

TEST_F(Inference, ClassesThatAModelIsNotAskedToTellApartAreOther) {
  const auto all = make_inference(parts()), two = make_inference(parts(2));
  ASSERT_TRUE(all && two);
  const auto each = (*all)->step(Infer{cheap_model(0), items(1)});
  const auto folded = (*two)->step(Infer{cheap_model(0), items(1)});
  ASSERT_TRUE(each && folded);
  ASSERT_EQ(folded->outputs.size(), kClasses + 3u);
  const float* scores = each->outputs.data() + kClasses;
  EXPECT_NEAR(folded->outputs[kClasses], scores[0], 1e-6);
  EXPECT_NEAR(std::exp(folded->outputs[kClasses + 2]), std::exp(scores[2]) + std::exp(scores[3]),
              1e-5);
}

TEST_F(Inference, WhatCannotWorkIsSaidWithTheNameOfTheFile) {
  InferenceParts missing = parts();
  missing.accurate = folder_.path("none.pt");
  EXPECT_TRUE(says(make_inference(missing), "none.pt"));
  std::ofstream(folder_.path("text.pt")) << "no model";
  missing.accurate = folder_.path("text.pt");
  EXPECT_TRUE(says(make_inference(missing).error().what, "text.pt"));
  InferenceParts wide = parts();
  wide.shape.sample = {21};
  EXPECT_TRUE(says(make_inference(wide).error().what, "large.pt"));
  InferenceParts more = parts();
  more.shape.outputs = 7;
  EXPECT_TRUE(says(make_inference(more).error().what, "expected 7"));
  const auto learner = good(make_inference(parts()));
  EXPECT_FALSE((*learner)->step(LocalStep{}));
  EXPECT_FALSE((*learner)->step(Infer{cheap_model(2), items(1)}));
  EXPECT_FALSE((*learner)->step(Infer{Infer::Model::accurate, {Item{0, 1, Time{0}, {1.f}}}}));
}

TEST_F(Inference, AModelIsRefusedBeforeItIsUsed) {
  std::vector<float> values(84, std::numeric_limits<float>::quiet_NaN());  // training diverged
  folder_.write("nan.pt", *model_file({.kind = "logistic"}, data_->shape, values));
  InferenceParts diverged = parts();
  diverged.cheap[0].path = folder_.path("nan.pt");
  EXPECT_TRUE(says(make_inference(diverged), "not finite"));

  const auto learner = good(make_inference(parts()));
  auto* models = good(dynamic_cast<CheapModels*>(learner->get()));
  const auto give = [&](const char* name, std::vector<std::uint32_t> classes) {
    std::ifstream in(folder_.path(name), std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(in), {}};
    return models->put_cheap(2, classes, std::as_bytes(std::span(bytes)));
  };
  EXPECT_FALSE(give("nan.pt", {}));
  EXPECT_TRUE(give("small.pt", {2, 1}));
  EXPECT_TRUE((*learner)->step(Infer{cheap_model(2), items(1)}));
}

}  // namespace
}  // namespace longhaul::learn
