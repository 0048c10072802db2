#pragma once
// Internal to learn/ (includes torch): LocalSolve and FullGradient for the two models whose loss is
// convex.
#include <ATen/ATen.h>

#include <map>

#include "longhaul/base/result.h"
#include "longhaul/core/work.h"
#include "longhaul/learn/batch_loader.h"

namespace longhaul::learn {

// The largest model that is solved locally: a dense Hessian is held.
inline constexpr std::uint64_t kMaxSolve = 4096;

// One shard as a function f of a model with weight {outputs, features} and, if there is one, bias
// {outputs}: x is the weight row by row, then the bias, the order of the layout. f is the mean of
// batch_loss over the shard, or the sum. All in fp64.
class ConvexShard {
 public:
  // `size`: of x, with or without bias.
  ConvexShard(const Batch& shard, Task, std::int64_t outputs, std::uint64_t size);

  // argmin of f(x) + <linear, x> + sum of weight/2 |x - anchor|^2 in result.solution, and f there
  // in result.loss. Newton's method with a dense Hessian and a backtracking line search (Boyd and
  // Vandenberghe, "Convex optimization", 9.5), from `start`, until the gradient is no longer than
  // tolerance times the larger of 1 and its length at 0. Of least squares the Hessian is the same
  // everywhere and is factored once for each sum of weights. CHECKs sizes; an Error if it does not
  // get there in 100 iterations: the problem has no minimum (separable classes and no anchor) or
  // the tolerance is finer than fp64.
  Status solve(const LocalSolve&, std::span<const float> start, StepResult&);
  // f at `at` in result.loss, its gradient in result.solution.
  void gradient(const FullGradient&, StepResult&) const;

 private:
  struct Terms;  // of LocalSolve, as tensors
  at::Tensor matrix(const at::Tensor& x) const;
  at::Tensor product(const at::Tensor& x) const;
  at::Tensor back(const at::Tensor& dz, double scale) const;
  at::Tensor means(const at::Tensor& z) const;
  at::Tensor curvature(const at::Tensor& p, const at::Tensor& dz) const;
  double loss(const at::Tensor& x, double scale) const;
  double value(const at::Tensor& x, const Terms&) const;
  at::Tensor slope(const at::Tensor& x, const Terms&) const;
  at::Tensor factor(const at::Tensor& x, const Terms&);
  at::Tensor hessian(const at::Tensor& x, double scale, double ridge) const;
  double line_search(const at::Tensor& x, const at::Tensor& direction, double slope,
                     const Terms&) const;
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
