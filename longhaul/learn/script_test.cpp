// [model] kind = "script": a user's own TorchScript file behind the learner.
#include <gtest/gtest.h>
#include <torch/csrc/jit/api/module.h>

#include <thread>

#include "longhaul/learn/net.h"
#include "longhaul/learn/scorer.h"
#include "longhaul/learn/testing/files.h"
#include "longhaul/learn/testing/synthetic.h"

namespace longhaul::learn {
namespace {

LearnerParts script_parts(const std::string& path) {
  OptimizerConfig optimizer;
  optimizer.momentum = 0.9;
  LearnerParts parts = testing::parts_for(testing::patterns({20}, 4, 160), "script", optimizer);
  parts.model.path = path;
  parts.batch = 16;
  return parts;
}

class Script : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {  // importing torch takes Python its time
    shared_ = std::make_unique<testing::TemporaryFolder>();
    ASSERT_EQ(testing::run_python("make_script.py", "'" + shared_->path("own.pt") + "'"), 0);
  }
  static void TearDownTestSuite() { shared_.reset(); }
  std::unique_ptr<Learner> make() {
    auto learner = make_learner(script_parts(path_));
    EXPECT_TRUE(learner) << (learner ? "" : learner.error().what);
    return *std::move(learner);
  }
  static inline std::unique_ptr<testing::TemporaryFolder> shared_;
  testing::TemporaryFolder folder_;
  const std::string path_ = shared_->path("own.pt");
};

TEST_F(Script, ItsLayoutIsThatOfTheModule) {
  const auto learner = make();
  const Layout& layout = *learner->layout();
  EXPECT_EQ(layout.parameters().length, 20u * 16 + 2 * 16 + 17 * 4);
  EXPECT_EQ(layout.buffers().length, 17u * 16 + 2 * 16);  // the fixed layer, running statistics
  EXPECT_EQ(layout.layers().front().name, "first.weight");
  for (const LayerRange& layer : layout.layers())
    EXPECT_EQ(layer.name.find("num_batches"), std::string::npos);
}

TEST_F(Script, LearnsAndKeepsWhatIsNotTrained) {
  const auto learner = make();
  const Layout& layout = *learner->layout();
  auto scorer = make_scorer(script_parts(path_).model, script_parts(path_).data);
  ASSERT_TRUE(scorer);
  const double before = (*scorer)->score(learner->params())->accuracy;
  const std::vector<float> start(learner->params().begin(), learner->params().end());
  for (int i = 0; i < 60; ++i) ASSERT_TRUE(learner->step(LocalStep{}));
  const double after = (*scorer)->score(learner->params())->accuracy;
  EXPECT_LT(before, 0.6);
  EXPECT_GT(after, 0.8);
  for (const LayerRange& layer : layout.layers()) {
    const std::size_t at = layer.range.offset;
    const bool fixed = layer.name.starts_with("fixed");
    EXPECT_EQ(start[at] == learner->params()[at], fixed) << layer.name;
  }
}

TEST_F(Script, DropoutIsAFunctionOfSeedRankAndStepAlone) {
  const auto alone = make();
  std::vector<double> losses;
  for (int i = 0; i < 12; ++i) losses.push_back(alone->step(LocalStep{})->loss);
  const auto one = make(), two = make();
  const auto repeat = [&](Learner& learner) {
    for (double loss : losses) EXPECT_EQ(learner.step(LocalStep{})->loss, loss);
  };
  std::jthread other([&] { repeat(*one); });
  repeat(*two);
}

TEST_F(Script, ResumesBitForBit) {
  const auto straight = make();
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(straight->step(LocalStep{}));
  Archive saved;
  straight->state(saved);
  const Buffer bytes = saved.take();
  const auto resumed = make();
  Archive ar(bytes);
  resumed->state(ar);
  ASSERT_TRUE(ar.finish());
  for (int i = 0; i < 15; ++i)
    EXPECT_EQ(straight->step(LocalStep{})->loss, resumed->step(LocalStep{})->loss);
}

void expect_refused(LearnerParts parts, const std::string& part) {
  auto learner = make_learner(parts);
  ASSERT_FALSE(learner);
  EXPECT_NE(learner.error().what.find(part), std::string::npos) << learner.error().what;
  EXPECT_NE(learner.error().what.find(parts.model.path), std::string::npos);
  EXPECT_EQ(learner.error().what.find('\n'), std::string::npos) << learner.error().what;
}

TEST_F(Script, WhatDoesNotFitIsSaidBeforeTheRun) {
  expect_refused(script_parts(folder_.path("none.pt")), "there is no file");
  LearnerParts wide = script_parts(path_);
  wide.data = testing::patterns({21}, 4, 160);
  expect_refused(wide, "does not take samples of this shape");
  LearnerParts more = script_parts(path_);
  more.data = testing::patterns({20}, 5, 160);
  expect_refused(more, "2 4, where these data need 2 x 5");
}

TEST_F(Script, SufficientFactorsAreNotForIt) { EXPECT_FALSE(make()->step(SufficientFactors{{0}})); }

// Modules made here, for what Python's layers do not have.
std::string saved_module(const testing::TemporaryFolder& folder, const at::Tensor& a,
                         const at::Tensor& b) {
  torch::jit::Module module("M");
  module.register_attribute("training", c10::BoolType::get(), true);
  module.register_parameter("a", a, false);
  module.register_parameter("b", b, false);
  module.define(
      "def forward(self, x: Tensor) -> Tensor:\n"
      "  return torch.mm(torch.relu(torch.mm(x, self.a)), self.b.t())\n");
  module.save(folder.path("made.pt"));
  return folder.path("made.pt");
}

TEST_F(Script, TiedWeightsStayOneAndGetBothGradients) {
  at::Tensor weight = at::randn({20, 20}) * 0.1;
  weight.set_requires_grad(true);
  auto net = Net::from_file(saved_module(folder_, weight, weight));
  ASSERT_TRUE(net) << net.error().what;
  EXPECT_EQ(net->layout()->size(), 400u);
  at::Tensor params = at::zeros({400}), grads = at::zeros({400});
  net->copy_to({params.data_ptr<float>(), 400});
  net->bind(params, grads);
  const at::Tensor x = at::randn({3, 20});
  net->forward(x, true).sum().backward();
  at::Tensor w = weight.detach().clone().set_requires_grad(true);
  at::mm(at::relu(at::mm(x, w)), w.t()).sum().backward();
  EXPECT_TRUE(at::allclose(grads.view({20, 20}), w.grad(), 1e-4, 1e-5));
}

TEST_F(Script, DoublesAndHalfSharedMemoryAreRefused) {
  const at::Tensor wide = at::randn({20, 8}).set_requires_grad(true);
  auto doubles = Net::from_file(
      saved_module(folder_, wide, at::randn({4, 8}).to(at::kDouble).set_requires_grad(true)));
  ASSERT_FALSE(doubles);
  EXPECT_NE(doubles.error().what.find("Double"), std::string::npos) << doubles.error().what;
  const at::Tensor part = wide.detach().narrow(0, 0, 4).set_requires_grad(true);
  auto shared = Net::from_file(saved_module(folder_, wide, part));
  ASSERT_FALSE(shared);
  EXPECT_NE(shared.error().what.find("shares a part"), std::string::npos) << shared.error().what;
}

}  // namespace
}  // namespace longhaul::learn
