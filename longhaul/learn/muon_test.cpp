#include "longhaul/learn/optimizer.h"

#include <ATen/ops/linalg_svd.h>
#include <gtest/gtest.h>
#include <torch/optim/adamw.h>

#include <cmath>

namespace longhaul::learn {
namespace {

at::Tensor numbers(std::vector<std::int64_t> sizes, std::uint64_t seed) {
  at::manual_seed(seed);
  return at::randn(sizes);
}

// orthogonalised(U S V^T) is U D V^T with D near 1, whatever S is.
TEST(Muon, OrthogonalisesAsTheSingularVectorsSay) {
  for (const auto& sizes : std::vector<std::vector<std::int64_t>>{{16, 16}, {8, 40}, {40, 8}}) {
    at::Tensor matrix = numbers(sizes, 3);
    auto [u, s, vh] = at::linalg_svd(matrix, false);
    // Singular values from 1 to 0.05: what is left of the smallest after the division by the norm
    // is still raised to 0.6 and more in five steps.
    s = at::linspace(1, 0.05, s.size(0));
    matrix = at::matmul(u * s, vh);
    const at::Tensor answer = at::matmul(at::matmul(u.t(), orthogonalised(matrix)), vh.t());
    for (std::int64_t i = 0; i < s.size(0); ++i)
      for (std::int64_t j = 0; j < s.size(0); ++j) {
        const double value = answer[i][j].item<double>();
        if (i == j) {
          EXPECT_GT(value, 0.6) << i;
          EXPECT_LT(value, 1.25) << i;
        } else {
          EXPECT_NEAR(value, 0, 1e-3) << i << " " << j;
        }
      }
    // The scale of the matrix does not count.
    EXPECT_TRUE(at::allclose(orthogonalised(1000 * matrix), orthogonalised(matrix), 1e-3, 1e-3));
  }
  EXPECT_TRUE(at::equal(orthogonalised(at::zeros({3, 4})), at::zeros({3, 4})));
}

struct Model {
  Layout layout{{{"embed.weight", {0, 12}, {4, 3}},
                 {"fc.weight", {12, 18}, {6, 3}},
                 {"fc.bias", {30, 6}, {6}},
                 {"conv.weight", {36, 24}, {2, 3, 2, 2}},
                 {"norm.weight", {60, 2}, {2}}}};
  at::Tensor params = numbers({62}, 1), grads = numbers({62}, 2);
  at::Tensor part(const at::Tensor& flat, std::size_t layer) const {
    const LayerRange& l = layout.layers()[layer];
    return flat.narrow(0, std::int64_t(l.range.offset), std::int64_t(l.range.length));
  }
};

OptimizerConfig muon_config() {
  OptimizerConfig config{.kind = "muon", .rate = 0.02};
  config.weight_decay = 0.1;
  config.adamw_rate = 0.003;
  return config;
}

TEST(Muon, MovesMatricesAlongTheOrthogonalisedMomentum) {
  for (const bool nesterov : {true, false}) {
    Model model;
    OptimizerConfig config = muon_config();
    config.nesterov = nesterov;
    Muon muon(config, model.layout, model.params, model.grads);
    at::Tensor momentum = at::zeros({62}), expected = model.params.clone();
    for (int i = 0; i < 3; ++i) {
      model.grads.copy_(numbers({62}, 10 + std::uint64_t(i)));
      momentum = 0.95 * momentum + model.grads;
      const at::Tensor direction = nesterov ? model.grads + 0.95 * momentum : momentum;
      for (const auto& [layer, rows, columns] : {std::tuple{1, 6, 3}, std::tuple{3, 2, 12}}) {
        const at::Tensor update =
            orthogonalised(model.part(direction, std::size_t(layer)).view({rows, columns}));
        at::Tensor weight = model.part(expected, std::size_t(layer));
        weight.mul_(1 - 0.02 * 0.1);
        weight.sub_(update.flatten(), 0.02 * std::sqrt(std::max(1.0, double(rows) / columns)));
      }
      muon.step(0.02);
      for (const std::size_t layer : {1u, 3u})
        EXPECT_TRUE(
            at::allclose(model.part(model.params, layer), model.part(expected, layer), 1e-5, 1e-6))
            << layer;
    }
  }
}

TEST(Muon, LeavesTheRestToAdamw) {
  Model model;
  Muon muon(muon_config(), model.layout, model.params, model.grads);
  at::Tensor twin = model.params.clone();
  twin.mutable_grad() = model.grads;
  torch::optim::AdamW adamw({twin}, torch::optim::AdamWOptions(0.003).weight_decay(0.1));
  for (int i = 0; i < 4; ++i) {
    model.grads.copy_(numbers({62}, 10 + std::uint64_t(i)));
    // The schedule holds for both rates.
    muon.step(i == 3 ? 0.01 : 0.02);
    adamw.param_groups().front().options().set_lr(i == 3 ? 0.0015 : 0.003);
    adamw.step();
    for (const std::size_t layer : {0u, 2u, 4u})
      EXPECT_TRUE(
          at::allclose(model.part(model.params, layer), model.part(twin, layer), 1e-5, 1e-7))
          << layer;
    for (const std::size_t layer : {1u, 3u})
      EXPECT_FALSE(at::allclose(model.part(model.params, layer), model.part(twin, layer)));
  }
}

}  // namespace
}  // namespace longhaul::learn
