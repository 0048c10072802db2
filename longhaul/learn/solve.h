#pragma once
// Internal to learn/ (includes torch): LocalSolve and FullGradient for the two models whose loss is
// convex.
#include <algorithm>
#include <cmath>
#include <map>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "longhaul/base/result.h"
#include "longhaul/core/work.h"
#include "longhaul/learn/batch_loader.h"

namespace longhaul::learn {

// The largest model that is solved locally: the solver holds a dense Hessian.
inline constexpr std::uint64_t kMaxSolve = 4096;

// One shard as a function f of a model x in layout order: weight {outputs, features} row by row,
// then the bias {outputs}, if any. f is the mean or the sum of batch_loss over the shard. All in
// fp64.
class ConvexShard {
 public:
  // `size`: size of x, with or without bias.
  ConvexShard(const Batch& shard, Task task, std::int64_t outputs, std::uint64_t size)
      : task_(task), outputs_(outputs), size_(std::int64_t(size)) {
    x_ = shard.input.flatten(1).to(at::kDouble);
    has_bias_ = size_ == outputs_ * (x_.size(1) + 1);
    if (has_bias_) x_ = at::cat({x_, at::ones({x_.size(0), 1}, at::kDouble)}, 1);
    LH_CHECK(size_ == outputs_ * x_.size(1));
    if (has_targets(task)) {
      y_ = shard.target.to(at::kDouble).reshape({-1, outputs});
    } else if (outputs == 1) {
      y_ = shard.target.to(at::kDouble).unsqueeze(1);
    } else {
      y_ = at::one_hot(shard.target, outputs).to(at::kDouble);
    }
  }

  // argmin of f(x) + <linear, x> + sum of weight/2 |x - anchor|^2 in result.solution, and f there
  // in result.loss. Newton's method with a dense Hessian and a backtracking line search (Boyd and
  // Vandenberghe, "Convex optimization", 9.5), from `start`, until the gradient is no longer than
  // tolerance times the larger of 1 and its length at 0. The Hessian of least squares is constant
  // and is factored once for each sum of weights. CHECKs sizes. Returns an Error after 100
  // iterations: the problem has no minimum (separable classes and no anchor) or the tolerance is
  // finer than fp64.
  Status solve(const LocalSolve& work, std::span<const float> start, StepResult& result) {
    at::NoGradGuard no_grad;
    LH_CHECK(std::int64_t(start.size()) == size_);
    const Terms terms(*this, work);
    at::Tensor x =
        at::from_blob(const_cast<float*>(start.data()), {size_}, at::kFloat).to(at::kDouble);
    const double size = std::max(1.0, slope(at::zeros_like(x), terms).norm().item<double>());
    for (int iteration = 0; iteration < 100; ++iteration) {
      const at::Tensor g = slope(x, terms);
      if (g.norm().item<double>() <= work.tolerance * size) {
        result.loss = loss(x, terms.scale);
        result.solution = as_vector(x);
        return Ok{};
      }
      const at::Tensor direction = -at::cholesky_solve(g.unsqueeze(1), factor(x, terms)).squeeze(1);
      const double step = line_search(x, direction, at::dot(g, direction).item<double>(), terms);
      x = x + step * direction;
    }
    return invalid(
        "a local solve did not reach its tolerance in 100 Newton iterations: the problem "
        "has no minimum, or the tolerance is finer than fp64");
  }

  // f at `at` in result.loss, its gradient in result.solution.
  void gradient(const FullGradient& work, StepResult& result) const {
    at::NoGradGuard no_grad;
    LH_CHECK(std::int64_t(work.at.size()) == size_);
    const at::Tensor x = as_tensor(work.at);
    result.loss = loss(x, scale(work.summed));
    result.solution = as_vector(back(means(product(x)) - y_, scale(work.summed)));
  }

 private:
  // Sums of weights that factors are kept of; GADMM has three, one for each number of neighbours.
  static constexpr std::size_t kMostFactors = 8;

  static at::Tensor as_tensor(const std::vector<double>& values) {
    return at::from_blob(const_cast<double*>(values.data()), {std::int64_t(values.size())},
                         at::kDouble);
  }

  static std::vector<double> as_vector(const at::Tensor& values) {
    const at::Tensor flat = values.contiguous();
    const double* first = flat.data_ptr<double>();
    return {first, first + flat.numel()};
  }

  // LocalSolve, as tensors.
  struct Terms {
    at::Tensor linear;
    std::vector<std::pair<double, at::Tensor>> anchors;
    bool summed = false;
    double scale = 1, weights = 0;

    Terms(const ConvexShard& shard, const LocalSolve& work)
        : summed(work.summed), scale(shard.scale(work.summed)) {
      linear = work.linear.empty() ? at::zeros({shard.size_}, at::kDouble) : as_tensor(work.linear);
      LH_CHECK(linear.numel() == shard.size_);
      for (const auto& [weight, anchor] : work.anchors) {
        anchors.emplace_back(weight, as_tensor(anchor));
        LH_CHECK(anchors.back().second.numel() == shard.size_);
        weights += weight;
      }
    }
  };

  // From the layout's order (weights row by row, then biases) to outputs x features, and back.
  at::Tensor matrix(const at::Tensor& x) const {
    if (!has_bias_) return x.view({outputs_, -1});
    const std::int64_t weights = size_ - outputs_;
    return at::cat({x.narrow(0, 0, weights).view({outputs_, -1}),
                    x.narrow(0, weights, outputs_).view({outputs_, 1})},
                   1);
  }

  at::Tensor product(const at::Tensor& x) const { return at::mm(x_, matrix(x).t()); }

  // The derivative by x, given that by the outputs z of the sum over the samples.
  at::Tensor back(const at::Tensor& dz, double scale) const {
    const at::Tensor m = at::mm(dz.t(), x_) * scale;
    if (!has_bias_) return m.flatten();
    return at::cat({m.narrow(1, 0, m.size(1) - 1).flatten(), m.select(1, m.size(1) - 1)});
  }

  // Returns the model's expectation of the target: z, a probability, or one for each class.
  at::Tensor means(const at::Tensor& z) const {
    if (task_ == Task::regression) return z;
    return is_separate() ? at::sigmoid(z) : at::softmax(z, 1);
  }

  at::Tensor curvature(const at::Tensor& p, const at::Tensor& dz) const {
    if (task_ == Task::regression) return dz;
    if (is_separate()) return p * (1 - p) * dz;
    const at::Tensor pdz = p * dz;
    return pdz - p * pdz.sum({1}, true);
  }

  double loss(const at::Tensor& x, double scale) const {
    const at::Tensor z = product(x);
    at::Tensor total;
    if (task_ == Task::regression) {
      total = 0.5 * at::square(z - y_).sum();
    } else if (is_separate()) {
      total = (at::softplus(z) - y_ * z).sum();
    } else {
      total = (at::logsumexp(z, {1}) - (y_ * z).sum({1})).sum();
    }
    return total.item<double>() * scale;
  }

  double value(const at::Tensor& x, const Terms& terms) const {
    double sum = loss(x, terms.scale) + at::dot(terms.linear, x).item<double>();
    for (const auto& [weight, anchor] : terms.anchors)
      sum += 0.5 * weight * at::square(x - anchor).sum().item<double>();
    return sum;
  }

  at::Tensor slope(const at::Tensor& x, const Terms& terms) const {
    at::Tensor g = back(means(product(x)) - y_, terms.scale) + terms.linear;
    for (const auto& [weight, anchor] : terms.anchors) g += weight * (x - anchor);
    return g;
  }

  at::Tensor factor(const at::Tensor& x, const Terms& terms) {
    const auto make = [&] { return at::linalg_cholesky(hessian(x, terms.scale, terms.weights)); };
    if (task_ != Task::regression) return make();
    const auto key = std::pair(terms.summed, terms.weights);
    const auto found = factors_.find(key);
    if (found != factors_.end()) return found->second;
    if (factors_.size() >= kMostFactors) factors_.clear();
    return factors_[key] = make();
  }

  at::Tensor hessian(const at::Tensor& x, double scale, double ridge) const {
    const at::Tensor p = means(product(x));
    at::Tensor h = at::empty({size_, size_}, at::kDouble);
    at::Tensor unit = at::zeros({size_}, at::kDouble);
    for (std::int64_t i = 0; i < size_; ++i) {
      unit[i] = 1;
      h[i] = back(curvature(p, product(unit)), scale);
      unit[i] = 0;
    }
    // A touch of damping: the logits of all classes may move together at no cost.
    ridge += 1e-12 * std::max(1.0, h.diagonal().max().item<double>());
    h.diagonal().add_(ridge);
    return h;
  }

  // The step along `direction` that lowers the value enough; rounding of the value is forgiven.
  double line_search(const at::Tensor& x, const at::Tensor& direction, double slope,
                     const Terms& terms) const {
    const double before = value(x, terms);
    const double slack = 1e-14 * std::max(1.0, std::abs(before));
    double step = 1;
    while (step > 1e-10 &&
           !(value(x + step * direction, terms) <= before + 1e-4 * step * slope + slack))
      step /= 2;
    return step;
  }

  // Are the outputs logits that know nothing of each other?
  bool is_separate() const { return task_ == Task::multilabel || outputs_ == 1; }
  double scale(bool summed) const {
    const std::int64_t each = task_ == Task::multilabel ? outputs_ : 1;
    return summed ? 1 : 1 / double(x_.size(0) * each);
  }

  const Task task_;
  const std::int64_t outputs_, size_;
  bool has_bias_ = false;
  at::Tensor x_, y_;  // samples x features, the bias being one of them; samples x outputs
  std::map<std::pair<bool, double>, at::Tensor> factors_;  // least squares: by summed, weights
};

}  // namespace longhaul::learn
