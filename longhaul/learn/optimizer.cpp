#include "longhaul/learn/optimizer.h"

#include <ATen/core/grad_mode.h>
#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

#include <sstream>

namespace longhaul::learn {

using torch::optim::AdagradParamState;
using torch::optim::AdamParamState;
using torch::optim::AdamWParamState;
using torch::optim::SGDParamState;

FlatOptimizer::FlatOptimizer(OptimizerConfig config, const Layout& layout, const at::Tensor& params,
                             const at::Tensor& grads)
    : config_(std::move(config)), params_(params), grads_(grads) {
  if (config_.kind == "muon") {
    muon_.emplace(config_, layout, params, grads);
    return;
  }
  params_.mutable_grad() = grads;
  make();
}

FlatOptimizer::~FlatOptimizer() = default;

void FlatOptimizer::make() {
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

// As torch.nn.utils.clip_grad_norm_, which adds 1e-6 to the norm.
void FlatOptimizer::clip_gradient() {
  if (!config_.clip) return;
  at::NoGradGuard no_grad;
  const at::Tensor scale = *config_.clip / (at::linalg_vector_norm(grads_) + 1e-6);
  grads_.mul_(scale.clamp_max(1.0));
}

void FlatOptimizer::step() {
  clip_gradient();
  if (muon_) return muon_->step(rate_at(config_, steps_++));
  optimizer_->param_groups().front().options().set_lr(rate_at(config_, steps_++));
  optimizer_->step();
}

void FlatOptimizer::reset() {
  if (muon_) return muon_->reset();
  if (config_.kind == "adagrad") return make();  // torch's begins with its sums, and needs them
  optimizer_->state().clear();
}

// What torch's optimisers look up the state of a parameter by: its address as text up to torch 2.0,
// then the address.
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

// The state of the one parameter; made, empty, if there is none yet.
template <class State>
State& FlatOptimizer::entry() {
  auto& states = optimizer_->state();
  using Key = typename std::decay_t<decltype(states)>::key_type;
  const Key key = key_of<Key>(params_.unsafeGetTensorImpl());
  auto& slot = states[key];
  if (!slot) slot = std::make_unique<State>();
  return static_cast<State&>(*slot);
}

std::vector<at::Tensor*> FlatOptimizer::tensors() {
  if (optimizer_->state().empty()) return {};
  const auto moments = [](auto& state) {
    return std::vector<at::Tensor*>{&state.exp_avg(), &state.exp_avg_sq()};
  };
  if (config_.kind == "adagrad") return {&entry<AdagradParamState>().sum()};
  if (config_.kind == "adam") return moments(entry<AdamParamState>());
  if (config_.kind == "adamw") return moments(entry<AdamWParamState>());
  at::Tensor& momentum = entry<SGDParamState>().momentum_buffer();
  return momentum.defined() ? std::vector<at::Tensor*>{&momentum} : std::vector<at::Tensor*>{};
}

Result<std::vector<float>> FlatOptimizer::vectors() {
  if (muon_)
    return invalid("[optimizer] kind = \"muon\": its state is of matrices and not exchanged");
  at::NoGradGuard no_grad;
  std::vector<float> values;
  for (const at::Tensor* tensor : tensors()) {
    const at::Tensor host = tensor->to(at::kCPU).contiguous();
    const float* from = host.data_ptr<float>();
    values.insert(values.end(), from, from + host.numel());
  }
  return values;
}

Status FlatOptimizer::set_vectors(std::span<const float> values) {
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

void FlatOptimizer::archive_tensor(Archive& ar, at::Tensor& tensor) const {
  bool full = tensor.defined();
  ar(full);
  if (ar.failed()) return;
  if (!full) return ar.fail("holds an optimiser without its vectors");
  at::Tensor host = at::empty(params_.sizes(), at::kFloat);
  if (!ar.loading()) host.copy_(tensor);
  ar.floats({host.data_ptr<float>(), std::size_t(host.numel())});
  if (ar.loading()) tensor = host.to(params_.device());
}

void FlatOptimizer::state(Archive& ar) {
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
  const auto adam = [&](auto& state) {
    std::int64_t step = state.step();
    ar(step);
    state.step(step);
    archive_tensor(ar, state.exp_avg());
    archive_tensor(ar, state.exp_avg_sq());
  };
  if (config_.kind == "sgd") {
    archive_tensor(ar, entry<SGDParamState>().momentum_buffer());
  } else if (config_.kind == "adagrad") {
    auto& state = entry<AdagradParamState>();
    std::int64_t step = state.step();
    ar(step);
    state.step(step);
    archive_tensor(ar, state.sum());
  } else if (config_.kind == "adam") {
    adam(entry<AdamParamState>());
  } else {
    adam(entry<AdamWParamState>());
  }
  // Of a checkpoint that ended early, nothing stays: torch cannot step with half a state.
  if (ar.failed()) reset();
}

}  // namespace longhaul::learn
