// [model] kind = "script": a user's own TorchScript file behind the learner.
#include "longhaul/learn/script.h"

#include <sanitizer/lsan_interface.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <sstream>
#include <thread>

#include <gtest/gtest.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/serialization/import.h>

#include "longhaul/base/testing/result.h"
#include "longhaul/core/kept_values.h"
#include "longhaul/learn/net.h"
#include "longhaul/learn/scorer.h"
#include "longhaul/learn/testing/learners.h"

namespace longhaul::learn {
namespace {

LearnerParts script_parts(const std::string& path) {
  OptimizerConfig optimizer{.momentum = 0.9};
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
  EXPECT_EQ(layout.buffers().length, 2u * 16);  // running statistics
  EXPECT_EQ(layout.layers().front().name, "first.weight");
  auto whole = good(Net::from_file(path_));
  EXPECT_EQ(whole->layout()->size() - layout.size(), 17u * 16);  // the fixed layer
  for (const LayerRange& layer : layout.layers())
    EXPECT_EQ(layer.name.find("num_batches"), std::string::npos);
}

TEST_F(Script, LearnsAndKeepsWhatIsNotTrained) {
  const auto learner = make();
  auto file = good(Net::from_file(path_));
  const Layout& layout = *file->layout();
  const auto whole = [&] { return whole_model(learner.get(), learner->params()); };
  auto scorer = good(make_scorer(script_parts(path_).model, script_parts(path_).data));
  const std::vector<float> start = whole();
  const double before = *(*scorer)->score(start)->accuracy;
  for (int i = 0; i < 60; ++i) ASSERT_TRUE(learner->step(LocalStep{}));
  const std::vector<float> end = whole();
  const double after = *(*scorer)->score(end)->accuracy;
  EXPECT_LT(before, 0.6);
  EXPECT_GT(after, 0.8);
  for (const LayerRange& layer : layout.layers()) {
    const std::size_t at = layer.range.offset;
    const bool fixed = layer.name.starts_with("fixed");
    EXPECT_EQ(start[at] == end[at], fixed) << layer.name;
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
  const Buffer bytes = testing::save(*straight);
  const auto resumed = make();
  testing::load(*resumed, bytes);
  for (int i = 0; i < 15; ++i)
    EXPECT_EQ(straight->step(LocalStep{})->loss, resumed->step(LocalStep{})->loss);
}

void expect_refused(LearnerParts parts, const std::string& part) {
  const Error learner = failure(make_learner(parts));
  EXPECT_TRUE(says(learner.what, part));
  EXPECT_TRUE(says(learner.what, parts.model.path));
  EXPECT_EQ(learner.what.find('\n'), std::string::npos) << learner.what;
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
                         const at::Tensor& b,
                         const std::string& forward = "(self, x: Tensor) -> Tensor",
                         const std::string& returned = "y") {
  torch::jit::Module module("M");
  module.register_attribute("training", c10::BoolType::get(), true);
  module.register_parameter("a", a, false);
  module.register_parameter("b", b, false);
  module.define("def forward" + forward +
                ":\n  y = torch.mm(torch.relu(torch.mm(x, self.a)), self.b.t())\n  return " +
                returned + "\n");
  module.save(folder.path("made.pt"));
  return folder.path("made.pt");
}

// Modules that compute the same numbers and answer them in other ways.
struct Form {
  std::string forward, returned, output = "";
};

LearnerParts parts_of(const testing::TemporaryFolder& folder, const Form& form) {
  const auto wave = [](std::int64_t rows) {
    const at::Tensor values = at::arange(rows * 8, at::kFloat).view({rows, 8});
    return at::sin(values).mul(0.3).set_requires_grad(true);
  };
  LearnerParts parts =
      script_parts(saved_module(folder, wave(20), wave(4), form.forward, form.returned));
  parts.model.output = form.output;
  return parts;
}

struct Trained {
  std::vector<float> params;
  Evaluation test;
  StepResult probe;
};

Trained trained(const LearnerParts& parts) {
  auto learner = make_learner(parts);
  auto scorer = make_scorer(parts.model, parts.data);
  EXPECT_TRUE(learner) << (learner ? "" : learner.error().what);
  if (!learner || !scorer) return {};
  for (int i = 0; i < 12; ++i) EXPECT_TRUE((*learner)->step(LocalStep{}));
  const auto test = (*scorer)->score((*learner)->params());
  const auto probe = (*learner)->step(Score{});
  EXPECT_TRUE(test && probe);
  return {{(*learner)->params().begin(), (*learner)->params().end()}, *test, *probe};
}

const std::string kLoss = "torch.cross_entropy_loss(y, t)";

TEST_F(Script, AnswersOfAnyFormTrainAlike) {
  const Trained plain = trained(parts_of(folder_, {"(self, x: Tensor) -> Tensor", "y"}));
  ASSERT_GT(plain.test.accuracy, 0.5);
  const std::string one = "(self, x: Tensor) -> ", two = "(self, x: Tensor, t: Tensor) -> ";
  for (const Form& form :
       {Form{one + "Dict[str, Tensor]", "{\"hidden\": x, \"logits\": y}", "logits"},
        Form{one + "Tuple[Tensor, Tensor]", "(x, y)", "1"},
        Form{one + "List[Tensor]", "[x, y]", "1"},
        Form{"(self, x: Tensor, mask: Optional[Tensor]=None) -> Tensor", "y"},
        Form{two + "Dict[str, Tensor]", "{\"logits\": y, \"loss\": " + kLoss + "}", "logits"},
        Form{two + "Tuple[Tensor, Tensor]", "(y, " + kLoss + ")", "0"}}) {
    const Trained found = trained(parts_of(folder_, form));
    EXPECT_EQ(found.params, plain.params) << form.forward;
    EXPECT_EQ(found.test.loss, plain.test.loss) << form.forward;
    EXPECT_EQ(found.test.accuracy, plain.test.accuracy) << form.forward;
    EXPECT_EQ(found.probe.loss, plain.probe.loss) << form.forward;
    EXPECT_EQ(found.probe.accuracy, plain.probe.accuracy) << form.forward;
  }
}

TEST_F(Script, AModelThatAnswersItsLossAloneHasNoAccuracy) {
  const Trained plain = trained(parts_of(folder_, {"(self, x: Tensor) -> Tensor", "y"}));
  const Trained own = trained(parts_of(folder_, {"(self, x: Tensor, t: Tensor) -> Tensor", kLoss}));
  EXPECT_EQ(own.params, plain.params);
  EXPECT_EQ(own.test.loss, plain.test.loss);
  EXPECT_EQ(own.test.samples, plain.test.samples);
  EXPECT_FALSE(own.test.accuracy);
  EXPECT_EQ(own.probe.loss, plain.probe.loss);
  EXPECT_EQ(own.probe.accuracy, 0);
}

TEST_F(Script, RefusedAnswersNameTheirPartsAndTheKey) {
  const std::string one = "(self, x: Tensor) -> ", two = "(self, x: Tensor, t: Tensor) -> ";
  const std::string dict = "{\"hidden\": x, \"logits\": y}";
  struct Case {
    Form form;
    std::string said;
  };
  for (const Case& c :
       {Case{{one + "Dict[str, Tensor]", dict},
             "answers a dict of 'hidden', 'logits': set [model] output to the one"},
        Case{{one + "Dict[str, Tensor]", dict, "logit"},
             "'hidden', 'logits', and [model] output = \"logit\" is no tensor of it"},
        Case{{one + "Tuple[Tensor, int]", "(y, 3)", "1"}, "a tuple of '0', '1' (no tensor), and"},
        Case{{one + "Tensor", "y", "logits"}, "answers one tensor, which has no part 'logits'"},
        Case{{two + "Dict[str, Tensor]", dict},
             "'logits'; a forward() that is given the targets answers its loss: one number, called "
             "'loss'"},
        Case{{two + "Tensor", "y"}, "answers a loss of sizes [2, 4], expected one number"},
        Case{{"(self, x: Tensor, t: Tensor, w: Tensor) -> Tensor", "y"},
             "forward() of 3 arguments without a default value, expected the samples, or"}})
    expect_refused(parts_of(folder_, c.form), c.said);
}

TEST_F(Script, TiedWeightsStayOneAndGetBothGradients) {
  at::Tensor weight = at::randn({20, 20}) * 0.1;
  weight.set_requires_grad(true);
  auto net = good(Net::from_file(saved_module(folder_, weight, weight)));
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

TEST_F(Script, WhatNoStepChangesIsInNoExchange) {
  torch::jit::Module module("M");
  module.register_attribute("training", c10::BoolType::get(), true);
  const auto tensor = [](at::IntArrayRef sizes) { return at::ones(sizes) * 0.1; };
  module.register_parameter("head", tensor({8, 4}).set_requires_grad(true), false);
  module.register_parameter("frozen", tensor({20, 8}), false);
  module.register_parameter("unused", tensor({5}).set_requires_grad(true), false);
  module.register_buffer("mask", at::full({4}, -std::numeric_limits<float>::infinity()));
  module.register_buffer("count", at::zeros({1}));
  module.define(
      "def forward(self, x: Tensor) -> Tensor:\n"
      "  self.count.add_(1)\n"
      "  y = torch.mm(torch.relu(torch.mm(x, self.frozen)), self.head)\n"
      "  return torch.where(y > 1e9, self.mask, y)\n");
  module.save(folder_.path("made.pt"));
  auto net = good(Net::from_file(folder_.path("made.pt")));
  std::map<std::string, LayerRange::Role> roles;
  for (const LayerRange& layer : net->layout()->layers()) roles[layer.name] = layer.role;
  using Role = LayerRange::Role;
  EXPECT_EQ(roles, (std::map<std::string, Role>{{"head", Role::parameter},
                                                {"count", Role::buffer},
                                                {"frozen", Role::constant},
                                                {"unused", Role::constant},
                                                {"mask", Role::constant}}));
  LearnerParts parts = script_parts(folder_.path("made.pt"));
  parts.optimizer.weight_decay = 0.1;
  auto learner = good(make_learner(parts));
  EXPECT_EQ((*learner)->layout()->size(), 8u * 4 + 1);
  for (int i = 0; i < 5; ++i) ASSERT_TRUE((*learner)->step(LocalStep{}));
  EXPECT_EQ((*learner)->params()[8 * 4], 5);  // the count of its steps
}

TEST_F(Script, WhatCannotTrainOrBeScoredIsRefusedBeforeTheRun) {
  const std::string one = "(self, x: Tensor) -> Tensor";
  expect_refused(parts_of(folder_, {one, "y.detach()"}),
                 "does not train: its output depends on no parameter that requires a gradient");
  expect_refused(parts_of(folder_, {one, "y + torch.rand_like(y)"}),
                 "answers the same samples in two ways in evaluation mode");
  expect_refused(parts_of(folder_, {one, "y if not self.training else torch.mm(y, y)"}),
                 "does not train on these data");
}

// As batch norm, which cannot take one sample in training mode.
TEST_F(Script, ALastBatchOfOneSampleJoinsTheOneBeforeWhereTheModelNeedsTwo) {
  const std::string picky = "y if x.size(0) > 1 or not self.training else torch.mm(y, y)";
  for (const bool needs_two : {true, false}) {
    LearnerParts parts =
        parts_of(folder_, {"(self, x: Tensor) -> Tensor", needs_two ? picky : "y"});
    parts.shard.resize(parts.batch * 2 + 1);
    auto learner = good(make_learner(parts));
    std::vector<std::uint64_t> samples;
    for (int i = 0; i < 3; ++i) samples.push_back((*learner)->step(LocalStep{})->samples);
    EXPECT_EQ(samples, needs_two ? (std::vector<std::uint64_t>{16, 17, 16})
                                 : (std::vector<std::uint64_t>{16, 16, 1}));
  }
}

TEST_F(Script, DoublesAndHalfSharedMemoryAreRefused) {
  const at::Tensor wide = at::randn({20, 8}).set_requires_grad(true);
  const Error doubles = failure(Net::from_file(
      saved_module(folder_, wide, at::randn({4, 8}).to(at::kDouble).set_requires_grad(true))));
  EXPECT_TRUE(says(doubles.what, "Double"));
  const at::Tensor part = wide.detach().narrow(0, 0, 4).set_requires_grad(true);
  const Error shared = failure(Net::from_file(saved_module(folder_, wide, part)));
  EXPECT_TRUE(says(shared.what, "shares a part"));
}

// A model file is a program: what it may do, and that the rest never runs.

namespace fs = std::filesystem;

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
using NoLeakCheck = __lsan::ScopedDisabler;
#define LONGHAUL_LEAKS_ARE_CHECKED
#endif
#endif
#ifndef LONGHAUL_LEAKS_ARE_CHECKED
struct NoLeakCheck {
  NoLeakCheck() {}  // a variable of it is used
};
#endif

class ScriptOperators : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {  // importing torch takes Python its time
    shared_ = std::make_unique<testing::TemporaryFolder>();
    ASSERT_EQ(testing::run_python("make_script_kinds.py", "'" + shared_->path("") + "'"), 0);
  }
  static void TearDownTestSuite() { shared_.reset(); }
  static Result<torch::jit::Module> read(const std::string& path) {
    const NoLeakCheck libtorch_keeps_interfaces_in_a_cycle;
    std::ifstream in(path, std::ios::binary);
    return read_script(in, path, at::kCPU);
  }
  static std::vector<std::string> files(const std::string& folder) {
    std::vector<std::string> paths;
    for (const auto& file : fs::directory_iterator(shared_->path(folder)))
      paths.push_back(file.path());
    std::ranges::sort(paths);
    return paths;
  }
  static inline std::unique_ptr<testing::TemporaryFolder> shared_;
};

TEST_F(ScriptOperators, UsualModelsScriptedAndTracedAreTaken) {
  const auto all = files("good");
  EXPECT_EQ(all.size(), 14u);
  for (const std::string& path : all) {
    const auto module = good(read(path));
    const auto plain = torch::jit::load(path);
    EXPECT_EQ(module->named_parameters().size(), plain.named_parameters().size()) << path;
    EXPECT_EQ(module->named_buffers().size(), plain.named_buffers().size()) << path;
  }
}

// Where the forbidden call stands, and what the refusal says of it.
TEST_F(ScriptOperators, WhatIsNoComputationIsRefusedWhereverItStands) {
  const std::map<std::string, std::pair<std::string, std::string>> said = {
      {"calls", {"read_file", "aten::from_file"}},
      {"class", {"Helper.take", "aten::from_file"}},
      {"exported", {"read_file", "aten::from_file"}},
      {"forks", {"read_file", "aten::from_file"}},
      {"hooked", {"read_file", "aten::from_file"}},
      {"interface", {"read_file", "aten::from_file"}},
      {"nested", {"read_file", "aten::from_file"}},
      {"prints", {"Prints.forward", "prim::Print"}},
      {"property", {"Property", "aten::from_file"}},
      {"quantised", {"LinearPackedParamsBase", "a class of C++"}},
      {"saves", {"Saves.forward", "aten::save"}},
      {"seeds", {"Seeds.forward", "aten::manual_seed"}},
      {"setstate", {"SetState.__setstate__", "aten::from_file"}},
      {"submodule", {"read_file", "aten::from_file"}}};
  const auto all = files("bad");
  EXPECT_EQ(all.size(), said.size());
  for (const std::string& path : all) {
    std::string why;
    try {
      const auto module = read(path);
      ASSERT_FALSE(module) << path;
      why = module.error().what;
      EXPECT_TRUE(says(why, path));
    } catch (const std::exception& error) {
      why = error.what();
    }
    const auto& [where, what] = said.at(fs::path(path).stem());
    EXPECT_TRUE(says(why, where)) << path << ": " << why;
    EXPECT_TRUE(says(why, what)) << path << ": " << why;
  }
  EXPECT_FALSE(fs::exists("written"));  // __setstate__ would have run before any forward()
}

TEST_F(ScriptOperators, OtherFormatsThatTorchReadsAreRefused) {
  for (const char* bytes :
       {"", "P", "RIFF1234", "\x1c\x00\x00\x00PTMF", "PK\x03\x04 and no more"}) {
    std::istringstream in(bytes);
    try {
      EXPECT_FALSE(read_script(in, "x.pt", at::kCPU)) << bytes;
    } catch (const std::exception& error) {
      EXPECT_NE(std::string(error.what()), "");
    }
  }
}

}  // namespace
}  // namespace longhaul::learn
