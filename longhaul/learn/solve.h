#pragma once
// Internal to learn/ (includes torch): LocalSolve for the two models whose loss is convex.
#include <ATen/ATen.h>

#include "longhaul/base/result.h"
#include "longhaul/core/work.h"
#include "longhaul/learn/batch_loader.h"

namespace longhaul::learn {

// The largest model that local_solve() takes: it holds a dense Hessian.
inline constexpr std::uint64_t kMaxSolve = 4096;

// argmin over x of f(x) + <linear, x> + sum of weight/2 |x - anchor|^2, where f is the mean of
// batch_loss over `shard` of a model with weight {outputs, features} and bias {outputs}: x is the
// weight row by row, then the bias, the order of the layout. Newton's method with a dense Hessian
// and a backtracking line search (Boyd and Vandenberghe, "Convex optimization", 9.5), in fp64, from
// `start`, until the gradient is no longer than tolerance times the larger of 1 and its length at
// 0. CHECKs sizes; an Error if it does not get there in 100 iterations: the problem has no minimum
// (separable classes and no anchor) or the tolerance is finer than fp64.
Result<std::vector<double>> local_solve(const Batch& shard, Task, std::int64_t outputs,
                                        std::span<const float> start, const LocalSolve&);

}  // namespace longhaul::learn
