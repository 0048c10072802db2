#include "longhaul/core/testing/quadratic.h"

#include <cmath>

#include "longhaul/base/overloaded.h"

namespace longhaul::testing {
Quadratic::Quadratic(std::uint64_t size, Config config) : config_(config) {
  LH_CHECK(config.buffers <= size);
  const auto length = std::int64_t(size - config.buffers);
  std::vector<LayerRange> layers = {{"x", {0, std::uint64_t(length)}, {length}}};
  if (config.buffers > 0) {
    layers.push_back({"steps",
                      {std::uint64_t(length), config.buffers},
                      {std::int64_t(config.buffers)},
                      LayerRange::Role::buffer});
  }
  layout_ = std::make_shared<const Layout>(std::move(layers));
  params_.assign(size, config.start);
  std::fill(params_.begin() + length, params_.end(), 0.f);
  grads_.assign(size, 0.f);
  velocity_.assign(size, 0.f);
}

double Quadratic::gradient(std::span<float> out) const {
  double loss = 0;
  for (std::size_t i = 0; i < layout_->parameters().length; ++i) {
    out[i] = params_[i] - target(i);
    loss += 0.5 * double(out[i]) * double(out[i]);
  }
  return loss / double(layout_->parameters().length);
}

void Quadratic::apply(std::span<const float> gradient) {
  for (std::size_t i = 0; i < layout_->parameters().length; ++i) {
    velocity_[i] = config_.momentum * velocity_[i] + gradient[i];
    params_[i] -= config_.rate * velocity_[i];
  }
}

Result<StepResult> Quadratic::step(const Work& work) {
  StepResult result{.samples = config_.samples, .shard_size = config_.samples, .exhausted = true};
  std::vector<float> g(params_.size(), 0.f);
  const auto count_buffers = [&] {
    for (std::size_t i = layout_->buffers().offset; i < params_.size(); ++i)
      params_[i] += 1.f + config_.target;
  };
  std::visit(Overloaded{
                 [&](const LocalStep&) {
                   result.loss = gradient(g);
                   apply(g);
                   count_buffers();
                 },
                 [&](const Gradient&) {
                   result.loss = gradient(grads_);
                   count_buffers();
                 },
                 [&](const ApplyGradient&) {
                   apply(grads_);
                   result.samples = 0;
                 },
                 [&](const ProximalStep& w) {
                   result.loss = gradient(g);
                   for (std::size_t i = 0; i < layout_->parameters().length; ++i)
                     g[i] += float(w.mu) * (params_[i] - (*w.anchor)[i]);
                   apply(g);
                   count_buffers();
                 },
                 [&](const ScratchStep&) { result.loss = gradient(g); },
                 [&](const ResetOptimizer&) {
                   std::fill(velocity_.begin(), velocity_.end(), 0.f);
                   result.samples = 0;
                 },
                 [&](const Score& w) {  // by its distance from the target, 1 there
                   const std::vector<float> own = params_;
                   if (w.model) params_ = *w.model;
                   result.loss = gradient(g);
                   params_ = own;
                   result.samples = 1000;
                   result.accuracy = std::exp(-result.loss);
                 },
                 [&](const auto&) { result.samples = 0; },
             },
             work);
  if (std::holds_alternative<SufficientFactors>(work) || std::holds_alternative<LocalSolve>(work))
    return invalid("the quadratic learner has no such kind of work");
  return result;
}

void Quadratic::state(Archive& ar) {
  ar.floats(params_);
  ar.floats(grads_);
  ar.floats(velocity_);
}

}  // namespace longhaul::testing
