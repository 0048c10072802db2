#include "longhaul/learn/muon.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>

namespace longhaul::learn {

at::Tensor orthogonalised(const at::Tensor& matrix) {
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

Muon::Muon(const OptimizerConfig& config, const Layout& layout, const at::Tensor& params,
           const at::Tensor& grads)
    : config_(config), params_(params), grads_(grads) {
  for (const LayerRange& layer : layout.layers()) {
    if (layer.role != LayerRange::Role::parameter) continue;
    const bool matrix = layer.shape.size() >= 2 &&
                        std::ranges::none_of(config_.by_adamw, [&](const std::string& name) {
                          return layer.name.starts_with(name);
                        });
    const auto offset = std::int64_t(layer.range.offset), length = std::int64_t(layer.range.length);
    if (!matrix && !parts_.empty() && parts_.back().rows == 0) {  // elementwise: one call for both
      parts_.back().length += length;
    } else {
      parts_.push_back({offset, length, matrix ? layer.shape.front() : 0});
    }
  }
  reset();
}

void Muon::reset() {
  momentum_ = at::zeros_like(params_);
  first_ = at::zeros_like(params_);
  second_ = at::zeros_like(params_);
  steps_ = 0;
}

void Muon::step(double rate) {
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

void Muon::step_matrix(const Part& part, double rate) {
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

void Muon::step_rest(const Part& part, double rate) {
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

}  // namespace longhaul::learn
