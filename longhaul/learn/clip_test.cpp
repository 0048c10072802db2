// [optimizer] clip.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <vector>

#include "longhaul/learn/testing/learners.h"

namespace longhaul::learn {
namespace {

using testing::make;
using testing::take;

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
  const auto result = learner->step(ApplyGradient{0, 2});
  ASSERT_FALSE(result);
  EXPECT_NE(result.error().what.find("[optimizer] clip"), std::string::npos);
}

}  // namespace
}  // namespace longhaul::learn
