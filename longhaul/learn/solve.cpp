#include "longhaul/learn/solve.h"

#include <algorithm>
#include <cmath>

namespace longhaul::learn {
namespace {

class Problem {
 public:
  Problem(const Batch& shard, Task task, std::int64_t outputs, const LocalSolve& work)
      : task_(task), outputs_(outputs), linear_(vector(work.linear)) {
    const at::Tensor flat = shard.input.flatten(1).to(at::kDouble);
    x_ = at::cat({flat, at::ones({flat.size(0), 1}, at::kDouble)}, 1);  // the bias is a feature
    size_ = outputs_ * x_.size(1);
    if (!linear_.defined()) linear_ = at::zeros({size_}, at::kDouble);
    LH_CHECK(linear_.numel() == size_);
    if (task == Task::regression) {
      y_ = shard.target.to(at::kDouble).reshape({-1, outputs});
    } else if (outputs == 1) {
      y_ = shard.target.to(at::kDouble).unsqueeze(1);
    } else {
      y_ = at::one_hot(shard.target, outputs).to(at::kDouble);
    }
    for (const auto& [weight, anchor] : work.anchors) {
      anchors_.emplace_back(weight, vector(anchor));
      LH_CHECK(anchors_.back().second.numel() == size_);
    }
  }

  std::int64_t size() const { return size_; }

  double value(const at::Tensor& x) const {
    const at::Tensor z = product(x);
    at::Tensor total;
    if (task_ == Task::regression) {
      total = 0.5 * at::square(z - y_).sum();
    } else if (outputs_ == 1) {
      total = (at::softplus(z) - y_ * z).sum();
    } else {
      total = (at::logsumexp(z, {1}) - (y_ * z).sum({1})).sum();
    }
    at::Tensor sum = total / double(x_.size(0)) + at::dot(linear_, x);
    for (const auto& [weight, anchor] : anchors_)
      sum += 0.5 * weight * at::square(x - anchor).sum();
    return sum.item<double>();
  }
  at::Tensor gradient(const at::Tensor& x) const {
    at::Tensor g = back(means(product(x)) - y_) + linear_;
    for (const auto& [weight, anchor] : anchors_) g += weight * (x - anchor);
    return g;
  }
  at::Tensor hessian(const at::Tensor& x) const {
    const at::Tensor p = means(product(x));
    at::Tensor h = at::empty({size_, size_}, at::kDouble);
    at::Tensor unit = at::zeros({size_}, at::kDouble);
    for (std::int64_t i = 0; i < size_; ++i) {
      unit[i] = 1;
      h[i] = back(curvature(p, product(unit)));
      unit[i] = 0;
    }
    double ridge = 0;
    for (const auto& [weight, anchor] : anchors_) ridge += weight;
    // A touch of damping: the logits of all classes may move together at no cost.
    ridge += 1e-12 * std::max(1.0, h.diagonal().max().item<double>());
    h.diagonal().add_(ridge);
    return h;
  }

 private:
  static at::Tensor vector(const std::vector<double>& values) {
    if (values.empty()) return {};
    return at::from_blob(const_cast<double*>(values.data()), {std::int64_t(values.size())},
                         at::kDouble);
  }
  // From the layout's order (weights row by row, then biases) to outputs x (features + 1), and
  // back.
  at::Tensor matrix(const at::Tensor& x) const {
    const std::int64_t weights = size_ - outputs_;
    return at::cat({x.narrow(0, 0, weights).view({outputs_, -1}),
                    x.narrow(0, weights, outputs_).view({outputs_, 1})},
                   1);
  }
  at::Tensor product(const at::Tensor& x) const { return at::mm(x_, matrix(x).t()); }
  // The derivative by x, given that by the outputs z (without the 1/n).
  at::Tensor back(const at::Tensor& dz) const {
    const at::Tensor m = at::mm(dz.t(), x_) / double(x_.size(0));
    return at::cat({m.narrow(1, 0, m.size(1) - 1).flatten(), m.select(1, m.size(1) - 1)});
  }
  // What the model expects of the target: z, a probability, or one for each class.
  at::Tensor means(const at::Tensor& z) const {
    if (task_ == Task::regression) return z;
    return outputs_ == 1 ? at::sigmoid(z) : at::softmax(z, 1);
  }
  at::Tensor curvature(const at::Tensor& p, const at::Tensor& dz) const {
    if (task_ == Task::regression) return dz;
    if (outputs_ == 1) return p * (1 - p) * dz;
    const at::Tensor pdz = p * dz;
    return pdz - p * pdz.sum({1}, true);
  }

  Task task_;
  std::int64_t outputs_, size_ = 0;
  at::Tensor x_, y_, linear_;
  std::vector<std::pair<double, at::Tensor>> anchors_;
};

// The step along `direction` that lowers the value enough; rounding of the value is forgiven.
double line_search(const Problem& problem, const at::Tensor& x, const at::Tensor& direction,
                   double slope) {
  const double before = problem.value(x);
  const double slack = 1e-14 * std::max(1.0, std::abs(before));
  double step = 1;
  while (step > 1e-10 &&
         !(problem.value(x + step * direction) <= before + 1e-4 * step * slope + slack))
    step /= 2;
  return step;
}

}  // namespace

Result<std::vector<double>> local_solve(const Batch& shard, Task task, std::int64_t outputs,
                                        std::span<const float> start, const LocalSolve& work) {
  at::NoGradGuard no_grad;
  const Problem problem(shard, task, outputs, work);
  LH_CHECK(std::int64_t(start.size()) == problem.size());
  at::Tensor x =
      at::from_blob(const_cast<float*>(start.data()), {problem.size()}, at::kFloat).to(at::kDouble);
  const double scale = std::max(1.0, problem.gradient(at::zeros_like(x)).norm().item<double>());
  for (int iteration = 0; iteration < 100; ++iteration) {
    const at::Tensor g = problem.gradient(x);
    if (g.norm().item<double>() <= work.tolerance * scale) {
      const double* values = x.data_ptr<double>();
      return std::vector<double>(values, values + x.numel());
    }
    const at::Tensor factor = at::linalg_cholesky(problem.hessian(x));
    const at::Tensor direction = -at::cholesky_solve(g.unsqueeze(1), factor).squeeze(1);
    x = x + line_search(problem, x, direction, at::dot(g, direction).item<double>()) * direction;
  }
  return invalid(
      "a local solve did not reach its tolerance in 100 Newton iterations: the problem "
      "has no minimum, or the tolerance is finer than fp64");
}

}  // namespace longhaul::learn
