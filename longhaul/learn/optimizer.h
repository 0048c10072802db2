#pragma once
// Internal to learn/ (includes torch): the local optimiser over the flat vector.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <sstream>
#include <vector>

#include "longhaul/base/archive.h"
#include "longhaul/core/layout.h"
#include "longhaul/learn/flat_vectors.h"
#include "longhaul/learn/models/optimizer_config.h"

namespace longhaul::learn {

// Returns nearly U V^T of matrix = U S V^T: five steps of the Newton-Schulz iteration
//   X <- a X + (b X X^T + c (X X^T)^2) X,   a = 3.4445, b = -4.7750, c = 2.0315,
// from X = matrix / |matrix|. The singular values become 0.7 .. 1.2, not 1: the coefficients are
// chosen for speed. Two dimensions; a zero matrix stays zero.
inline at::Tensor orthogonalised(const at::Tensor& matrix) {
  constexpr double a = 3.4445, b = -4.7750, c = 2.0315;
  const bool tall = matrix.size(0) > matrix.size(1);
  at::Tensor x = tall ? matrix.t() : matrix;
  x = x / (x.norm() + 1e-7);
  for (int i = 0; i < 5; ++i) {
    const at::Tensor square = at::matmul(x, x.t());
    const at::Tensor mixed = at::addmm(square, square, square, b, c);
    x = at::addmm(x, mixed, x, a);
  }
  return tall ? x.t() : x;
}

// Muon (Jordan et al., "Muon: an optimizer for hidden layers in neural networks", 2024), with AdamW
// (Loshchilov and Hutter, "Decoupled weight decay regularization", 2019) for everything that is no
// matrix. Parameters and gradients are flat vectors of the layout's trained part. For a matrix W
// {rows, columns} with gradient G (tensors of more dimensions: rows x the rest):
//   M <- momentum M + G,   D = G + momentum M with nesterov, else M
//   W <- (1 - rate decay) W - rate sqrt(max(1, rows / columns)) orthogonalised(D)
// Everything else, and matrices whose names begin with one of config.by_adamw: AdamW with
// config.adamw_rate, on the schedule of the rate.
class Muon {
 public:
  Muon(const OptimizerConfig& config, const Layout& layout, const at::Tensor& params,
       const at::Tensor& grads)
      : config_(config), params_(params), grads_(grads) {
    for (const LayerRange& layer : layout.layers()) {
      if (layer.role != LayerRange::Role::parameter) continue;
      const bool matrix = layer.shape.size() >= 2 &&
                          std::ranges::none_of(config_.by_adamw, [&](const std::string& name) {
                            return layer.name.starts_with(name);
                          });
      const auto offset = std::int64_t(layer.range.offset),
                 length = std::int64_t(layer.range.length);
      if (!matrix && !parts_.empty() &&
          parts_.back().rows == 0) {  // elementwise: one call for both
        parts_.back().length += length;
      } else {
        parts_.push_back({offset, length, matrix ? layer.shape.front() : 0});
      }
    }
    reset();
  }

  void step(double rate) {
    at::NoGradGuard no_grad;
    ++steps_;
    for (const Part& part : parts_) {
      if (part.rows > 0) {
        step_matrix(part, rate);
      } else {
        step_rest(part, config_.adamw_rate * (rate / config_.rate));
      }
    }
  }

  // Resets momentum and moments.
  void reset() {
    momentum_ = at::zeros_like(params_);
    first_ = at::zeros_like(params_);
    second_ = at::zeros_like(params_);
    steps_ = 0;
  }

  // Calls visit(tensor) for the three flat vectors, and archives the number of steps.
  template <class Visit>
  void state(Archive& ar, Visit&& visit) {
    ar(steps_);
    for (at::Tensor* tensor : {&momentum_, &first_, &second_}) visit(*tensor);
  }

 private:
  struct Part {
    std::int64_t offset, length, rows;  // rows: 0: no matrix
  };
  void step_matrix(const Part& part, double rate) {
    const at::Tensor gradient = grads_.narrow(0, part.offset, part.length);
    at::Tensor momentum = momentum_.narrow(0, part.offset, part.length);
    at::Tensor weight = params_.narrow(0, part.offset, part.length);
    momentum.mul_(config_.inertia()).add_(gradient);
    const at::Tensor direction =
        config_.looks_ahead() ? gradient + config_.inertia() * momentum : momentum;
    const std::int64_t columns = part.length / part.rows;
    const at::Tensor update = orthogonalised(direction.view({part.rows, columns}));
    const double scale = std::sqrt(std::max(1.0, double(part.rows) / double(columns)));
    weight.mul_(1 - rate * config_.decay());
    weight.view({part.rows, columns}).sub_(update, rate * scale);
  }

  void step_rest(const Part& part, double rate) {
    const at::Tensor gradient = grads_.narrow(0, part.offset, part.length);
    at::Tensor first = first_.narrow(0, part.offset, part.length);
    at::Tensor second = second_.narrow(0, part.offset, part.length);
    at::Tensor weight = params_.narrow(0, part.offset, part.length);
    first.mul_(config_.beta1).add_(gradient, 1 - config_.beta1);
    second.mul_(config_.beta2).addcmul_(gradient, gradient, 1 - config_.beta2);
    const double bias1 = 1 - std::pow(config_.beta1, double(steps_));
    const double bias2 = 1 - std::pow(config_.beta2, double(steps_));
    const at::Tensor root = (second.sqrt() / std::sqrt(bias2)).add_(config_.epsilon);
    weight.mul_(1 - rate * config_.decay());
    weight.addcdiv_(first, root, -rate / bias1);
  }

  OptimizerConfig config_;
  at::Tensor params_, grads_;
  std::vector<Part> parts_;
  at::Tensor momentum_, first_, second_;  // as long as the parameters
  std::int64_t steps_ = 0;
};

// The optimiser over the trained part of the flat vectors as ONE parameter with one gradient. Sgd,
// adagrad, adam and adamw work element by element, so the results are bit-identical to those of an
// optimiser over the layers. A step takes a few kernel calls, and the state is a few flat vectors
// in layout order. Muon works on the matrices of the layers.
class FlatOptimizer {
 public:
  FlatOptimizer(OptimizerConfig config, const Layout& layout, const at::Tensor& params,
                const at::Tensor& grads)
      : config_(std::move(config)), params_(params), grads_(grads) {
    if (config_.kind == "muon") {
      muon_.emplace(config_, layout, params, grads);
      return;
    }
    params_.mutable_grad() = grads;
    make();
  }

  // Does one step with the scheduled rate. With a clip, shortens the gradient first.
  void step() {
    clip_gradient();
    if (muon_) return muon_->step(rate_at(config_, steps_++));
    optimizer_->param_groups().front().options().set_lr(rate_at(config_, steps_++));
    optimizer_->step();
  }

  // Resets momentum and moments; the schedule continues.
  void reset() {
    if (muon_) return muon_->reset();
    if (config_.kind == "adagrad") return make();  // torch's begins with its sums, and needs them
    optimizer_->state().clear();
  }

  // Returns momentum or moments, one after the other; empty if there are none, or none yet. Returns
  // an Error if the state is of matrices (muon).
  Result<std::vector<float>> vectors() {
    if (muon_)
      return invalid("[optimizer] kind = \"muon\": its state is of matrices and not exchanged");
    at::NoGradGuard no_grad;
    std::vector<float> values;
    for (const at::Tensor* tensor : tensors()) append_values(values, *tensor);
    return values;
  }

  Status set_vectors(std::span<const float> values) {
    if (muon_)
      return invalid("[optimizer] kind = \"muon\": its state is of matrices and not exchanged");
    at::NoGradGuard no_grad;
    const auto each = std::size_t(params_.numel());
    const std::vector<at::Tensor*> into = tensors();
    if (values.size() != into.size() * each)
      return invalid("the optimiser has " + std::to_string(into.size() * each) +
                     " numbers of state, and " + std::to_string(values.size()) + " were given");
    for (std::size_t i = 0; i < into.size(); ++i) {
      const at::Tensor host = at::empty(params_.sizes(), at::kFloat);
      std::copy_n(values.begin() + std::ptrdiff_t(i * each), each, host.data_ptr<float>());
      into[i]->copy_(host);
    }
    return Ok{};
  }

  // Archives the steps taken, momentum or moments. Training continues bit for bit.
  void state(Archive& ar) {
    at::NoGradGuard no_grad;
    ar.expect(config_.kind);
    ar(steps_);
    if (ar.loading()) reset();
    if (muon_) {
      muon_->state(ar, [&](at::Tensor& tensor) { archive_tensor(ar, tensor); });
      if (ar.failed()) reset();
      return;
    }
    bool any = !optimizer_->state().empty();
    ar(any);
    if (!any || ar.failed()) return;
    const auto counted = [&](auto& state, std::initializer_list<at::Tensor*> vectors) {
      std::int64_t step = state.step();
      ar(step);
      state.step(step);
      for (at::Tensor* vector : vectors) archive_tensor(ar, *vector);
    };
    const auto adam = [&](auto& state) { counted(state, {&state.exp_avg(), &state.exp_avg_sq()}); };
    if (config_.kind == "sgd") {
      archive_tensor(ar, entry<torch::optim::SGDParamState>().momentum_buffer());
    } else if (config_.kind == "adagrad") {
      auto& state = entry<torch::optim::AdagradParamState>();
      counted(state, {&state.sum()});
    } else if (config_.kind == "adam") {
      adam(entry<torch::optim::AdamParamState>());
    } else {
      adam(entry<torch::optim::AdamWParamState>());
    }
    // An incomplete checkpoint leaves nothing: torch cannot step with half a state.
    if (ar.failed()) reset();
  }

 private:
  // Returns the key of a parameter's state in torch's optimisers: its address as text up to torch
  // 2.0, then the address.
  template <class Key>
  static Key key_of(void* parameter) {
    if constexpr (std::is_same_v<Key, std::string>) {
      std::ostringstream address;
      address << parameter;
      return address.str();
    } else {
      return parameter;
    }
  }

  void make() {
    const std::vector<at::Tensor> params = {params_};
    const OptimizerConfig& c = config_;
    if (c.kind == "sgd") {
      optimizer_ = std::make_unique<torch::optim::SGD>(params, torch::optim::SGDOptions(c.rate)
                                                                   .momentum(c.inertia())
                                                                   .nesterov(c.looks_ahead())
                                                                   .weight_decay(c.decay()));
    } else if (c.kind == "adagrad") {
      optimizer_ = std::make_unique<torch::optim::Adagrad>(
          params, torch::optim::AdagradOptions(c.rate).eps(c.epsilon).weight_decay(c.decay()));
    } else if (c.kind == "adam") {
      optimizer_ = std::make_unique<torch::optim::Adam>(params, torch::optim::AdamOptions(c.rate)
                                                                    .betas({c.beta1, c.beta2})
                                                                    .eps(c.epsilon)
                                                                    .weight_decay(c.decay()));
    } else {
      LH_CHECK(c.kind == "adamw");
      optimizer_ = std::make_unique<torch::optim::AdamW>(params, torch::optim::AdamWOptions(c.rate)
                                                                     .betas({c.beta1, c.beta2})
                                                                     .eps(c.epsilon)
                                                                     .weight_decay(c.decay()));
    }
  }

  // Clips like torch.nn.utils.clip_grad_norm_, which adds 1e-6 to the norm.
  void clip_gradient() {
    if (!config_.clip) return;
    at::NoGradGuard no_grad;
    const at::Tensor scale = *config_.clip / (at::linalg_vector_norm(grads_) + 1e-6);
    grads_.mul_(scale.clamp_max(1.0));
  }

  // Returns the state of the one parameter; makes an empty one if there is none yet.
  template <class State>
  State& entry() {
    auto& states = optimizer_->state();
    using Key = typename std::decay_t<decltype(states)>::key_type;
    const Key key = key_of<Key>(params_.unsafeGetTensorImpl());
    auto& slot = states[key];
    if (!slot) slot = std::make_unique<State>();
    return static_cast<State&>(*slot);
  }

  std::vector<at::Tensor*> tensors() {
    if (optimizer_->state().empty()) return {};
    const auto moments = [](auto& state) {
      return std::vector<at::Tensor*>{&state.exp_avg(), &state.exp_avg_sq()};
    };
    if (config_.kind == "adagrad") return {&entry<torch::optim::AdagradParamState>().sum()};
    if (config_.kind == "adam") return moments(entry<torch::optim::AdamParamState>());
    if (config_.kind == "adamw") return moments(entry<torch::optim::AdamWParamState>());
    at::Tensor& momentum = entry<torch::optim::SGDParamState>().momentum_buffer();
    return momentum.defined() ? std::vector<at::Tensor*>{&momentum} : std::vector<at::Tensor*>{};
  }

  void archive_tensor(Archive& ar, at::Tensor& tensor) const {
    bool full = tensor.defined();
    ar(full);
    if (ar.failed()) return;
    if (!full) return ar.fail("holds an optimiser without its vectors");
    at::Tensor host = at::empty(params_.sizes(), at::kFloat);
    if (!ar.loading()) host.copy_(tensor);
    ar.floats({host.data_ptr<float>(), std::size_t(host.numel())});
    if (ar.loading()) tensor = host.to(params_.device());
  }

  OptimizerConfig config_;
  at::Tensor params_, grads_;
  std::unique_ptr<torch::optim::Optimizer> optimizer_;  // one of the two
  std::optional<Muon> muon_;
  std::uint64_t steps_ = 0;  // position in the schedule
};

}  // namespace longhaul::learn
